// POST /inference/v1/generate, /tokenize and /detokenize: the answers.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "gateway/answer.h"
#include "gateway/token_words.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

std::string TokenName(int32_t id) {
  return fmt::format("token_id:{}", id);
}

// [{token, logprob, top_logprobs}] with ids for names: of the distribution they were drawn from.
WireJson DrawnLogprobs(std::span<const TokenRecord> tokens, int alternatives) {
  WireJson list = WireJson::array();
  for (const TokenRecord& token : tokens) {
    WireJson top = WireJson::array();
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(alternatives); ++i) {
      top.push_back({{"token", TokenName(token.top[i].id)},
                     {"token_id", token.top[i].id},
                     {"logprob", token.top[i].logprob}});
    }
    list.push_back({{"token", TokenName(token.id)},
                    {"logprob", token.draw_logprob},
                    {"top_logprobs", std::move(top)}});
  }
  return {{"content", std::move(list)}};
}

WireJson IdsOf(std::span<const TokenRecord> tokens) {
  WireJson ids = WireJson::array();
  for (const TokenRecord& token : tokens) ids.push_back(token.id);
  return ids;
}

// [{version, start, end}] of consecutive tokens; a version that is not known is none.
WireJson VersionSpans(std::span<const TokenRecord> tokens) {
  WireJson spans = WireJson::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string version = std::to_string(tokens[i].version);
    if (spans.empty() || spans.back()["version"] != version) {
      spans.push_back({{"version", version}, {"start", i}});
    }
    spans.back()["end"] = i + 1;
  }
  return spans;
}

WireJson Choice(const ChatRequest& request, size_t index, std::span<const TokenRecord> tokens) {
  return {{"index", index},
          {"token_ids", IdsOf(tokens)},
          {"logprobs", DrawnLogprobs(tokens, request.sampling.top_logprobs)},
          {"finish_reason", nullptr}};
}

class GenerateStream final : public AnswerStream {
 public:
  GenerateStream(const ChatRequest& request, AnswerHead head)
      : request_(request),
        head_(std::move(head)),
        drawn_(static_cast<size_t>(ChoiceCount(request))) {}

  std::string Open(const TokenUsage&) override { return {}; }

  std::string Write(const AnswerDelta& delta) override {
    if (delta.tokens.empty()) return {};
    const auto at = static_cast<size_t>(delta.choice);
    drawn_[at].insert(drawn_[at].end(), delta.tokens.begin(), delta.tokens.end());
    return Chunk(Choice(request_, at, delta.tokens));
  }

  std::string Finish(int choice, const AnswerEnd& end) override {
    WireJson last = Choice(request_, static_cast<size_t>(choice), {});
    last["finish_reason"] = OpenAiFinish(end, false);
    last["weight_versions"] = VersionSpans(drawn_[static_cast<size_t>(choice)]);
    return Chunk(std::move(last));
  }

  std::string Close(const TokenUsage& usage) override {
    std::string bytes;
    if (request_.include_usage) {
      bytes = ServerSentEvent("", {{"request_id", head_.id},
                                   {"choices", WireJson::array()},
                                   {"usage", OpenAiUsage(usage)}});
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string Fail(const ApiError& error) override {
    return ServerSentEvent("", {{"error", ErrorObject(Api::kGenerate, error)}});
  }

 private:
  std::string Chunk(WireJson choice) const {
    return ServerSentEvent(
        "", {{"request_id", head_.id}, {"choices", WireJson::array({std::move(choice)})}});
  }

  const ChatRequest& request_;
  const AnswerHead head_;
  std::vector<std::vector<TokenRecord>> drawn_;  // by choice
};

}  // namespace

std::unique_ptr<AnswerStream> MakeGenerateStream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<GenerateStream>(request, std::move(head));
}

WireJson GenerateBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  WireJson choices = WireJson::array();
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const AnswerChoice& from = answer.choices[i];
    WireJson choice = Choice(request, i, from.tokens);
    choice["finish_reason"] = OpenAiFinish(from.end, false);
    choice["weight_versions"] = VersionSpans(from.tokens);
    choices.push_back(std::move(choice));
  }
  WireJson body = {{"request_id", head.id}, {"choices", std::move(choices)}};
  if (!head.prompt_ids.empty()) body["prompt_token_ids"] = head.prompt_ids[0];
  body["usage"] = OpenAiUsage(answer.usage);
  return body;
}

void AddGeneration(WireJson& object, const AnswerHead& head, std::span<const TokenRecord> tokens) {
  WireJson logprobs = WireJson::array();
  for (const TokenRecord& token : tokens) logprobs.push_back(token.draw_logprob);
  if (!head.prompt_ids.empty()) object["prompt_token_ids"] = head.prompt_ids[0];
  object["generation_token_ids"] = IdsOf(tokens);
  object["generation_log_probs"] = std::move(logprobs);
}

std::string TokenizedBody(const Tokenizer& tokenizer, const ChatRequest& request,
                          const std::vector<TokenId>& ids, int64_t context_tokens) {
  WireJson strings = nullptr;
  if (request.return_token_strs) {
    strings = WireJson::array();
    for (const TokenId id : ids) strings.push_back(ToUtf8(tokenizer.TokenBytes(id)));
  }
  return DumpWire({{"count", ids.size()},
                   {"max_model_len", context_tokens},
                   {"tokens", ids},
                   {"token_strs", std::move(strings)}});
}

Result<std::string> DetokenizedBody(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= tokenizer.vocab_size()) {
      return Invalid(fmt::format("tokens[{}]: {} is outside the vocabulary of {}", i, ids[i],
                                 tokenizer.vocab_size()));
    }
    text += tokenizer.TokenBytes(ids[i]);
  }
  const std::string whole = ToUtf8(text);
  return DumpWire({{"prompt", whole}, {"content", whole}});
}

}  // namespace tidemill
