// POST /v1/completions: the answer.
#include <algorithm>

#include "core/text.h"
#include "gateway/answer.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

WireJson CompletionsHead(const AnswerHead& head) {
  return {{"id", "cmpl-" + head.id},
          {"object", "text_completion"},
          {"created", head.created_s},
          {"model", head.model}};
}

size_t CharactersOf(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// `offset`: of the first token in the text, in characters; moved past the last.
WireJson OldLogprobs(const std::vector<TokenRecord>& tokens, int alternatives, size_t& offset) {
  WireJson texts = WireJson::array();
  WireJson logprobs = WireJson::array();
  WireJson tops = WireJson::array();
  WireJson offsets = WireJson::array();
  for (const TokenRecord& token : tokens) {
    texts.push_back(ToUtf8(token.bytes));
    logprobs.push_back(token.logprob);
    offsets.push_back(offset);
    offset += CharactersOf(token.bytes);
    WireJson top = WireJson::object();
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(alternatives); ++i) {
      top[ToUtf8(token.top[i].bytes)] = token.top[i].logprob;
    }
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", alternatives > 0 ? std::move(tops) : WireJson(nullptr)},
          {"text_offset", std::move(offsets)}};
}

// The prompt's tokens in front of those that were drawn; the first has no log-probability.
WireJson EchoedLogprobs(const AnswerChoice& choice, int alternatives) {
  std::vector<TokenRecord> all;
  for (const PromptRecord& one : choice.prompt) all.push_back(one.token);
  all.insert(all.end(), choice.tokens.begin(), choice.tokens.end());
  size_t offset = 0;
  WireJson logprobs = OldLogprobs(all, alternatives, offset);
  for (size_t i = 0; i < choice.prompt.size(); ++i) {
    if (choice.prompt[i].scored) continue;
    logprobs["token_logprobs"][i] = nullptr;
    if (alternatives > 0) logprobs["top_logprobs"][i] = nullptr;
  }
  return logprobs;
}

std::string EchoedText(const ChatRequest& request, const AnswerChoice& choice, size_t prompt) {
  if (!request.echoes) return "";
  const RawPrompt& raw = request.prompts[prompt];
  if (raw.ids.empty()) return raw.text;
  std::string bytes;
  for (const PromptRecord& one : choice.prompt) bytes += one.token.bytes;
  return ToUtf8(bytes);
}

class CompletionsStream final : public AnswerStream {
 public:
  CompletionsStream(const ChatRequest& request, AnswerHead head)
      : request_(request),
        head_(std::move(head)),
        before_choice_(ChunkBegin(CompletionsHead(head_))),
        offsets_(static_cast<size_t>(ChoiceCount(request)), 0),
        begun_(offsets_.size(), false) {}

  std::string Open(const TokenUsage&) override { return {}; }

  std::string Write(const AnswerDelta& delta) override {
    std::string text;
    for (const OutputEvent& event : delta.events) {
      if (event.kind == OutputEvent::Kind::kText) text += event.text;
    }
    const bool with_tokens =
        !delta.tokens.empty() && (request_.sampling.logprobs || request_.return_token_ids);
    if (text.empty() && !with_tokens) return {};
    return Chunk(delta.choice, text, delta.tokens, nullptr);
  }

  std::string Finish(int choice, const AnswerEnd& end) override {
    return Chunk(choice, "", {}, OpenAiFinish(end, false));
  }

  std::string Close(const TokenUsage& usage) override {
    std::string bytes;
    if (request_.include_usage) {
      WireJson chunk = CompletionsHead(head_);
      chunk["choices"] = WireJson::array();
      chunk["usage"] = OpenAiUsage(usage);
      bytes = ServerSentEvent("", chunk);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string Fail(const ApiError& error) override {
    return ServerSentEvent("", {{"error", ErrorObject(Api::kCompletions, error)}});
  }

 private:
  std::string Chunk(int index, const std::string& text, const std::vector<TokenRecord>& tokens,
                    WireJson finish) {
    const auto at = static_cast<size_t>(index);
    WireJson choice = {{"text", text}, {"index", index}};
    choice["logprobs"] = request_.sampling.logprobs && !tokens.empty()
                             ? OldLogprobs(tokens, request_.sampling.top_logprobs, offsets_[at])
                             : WireJson(nullptr);
    choice["finish_reason"] = std::move(finish);
    if (request_.return_token_ids) {
      const size_t prompt = at / static_cast<size_t>(request_.sampling.n);
      if (!begun_[at] && prompt < head_.prompt_ids.size()) {
        choice["prompt_token_ids"] = head_.prompt_ids[prompt];
      }
      begun_[at] = true;
      AddTokenIds(choice, tokens);
    }
    return before_choice_ + DumpWire(choice) + std::string(kChunkEnd);
  }

  const ChatRequest& request_;
  const AnswerHead head_;
  const std::string before_choice_;  // the same in every chunk, and there are many
  std::vector<size_t> offsets_;      // by choice: characters of the tokens so far
  std::vector<bool> begun_;          // by choice: the prompt's ids were given
};

}  // namespace

std::unique_ptr<AnswerStream> MakeCompletionsStream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<CompletionsStream>(request, std::move(head));
}

WireJson CompletionsBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  WireJson body = CompletionsHead(head);
  WireJson choices = WireJson::array();
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const AnswerChoice& from = answer.choices[i];
    const size_t prompt = i / static_cast<size_t>(request.sampling.n);
    WireJson choice = {
        {"text", EchoedText(request, from, prompt) + from.TextOf(AnswerPart::Kind::kText)},
        {"index", i}};
    size_t offset = 0;
    choice["logprobs"] = !request.sampling.logprobs ? WireJson(nullptr)
                         : request.echoes
                             ? EchoedLogprobs(from, request.sampling.top_logprobs)
                             : OldLogprobs(from.tokens, request.sampling.top_logprobs, offset);
    if (request.sampling.prompt_logprobs && !request.echoes) {
      choice["prompt_logprobs"] = PromptLogprobs(from.prompt);
    }
    choice["finish_reason"] = OpenAiFinish(from.end, false);
    if (request.return_token_ids) {
      if (prompt < head.prompt_ids.size()) choice["prompt_token_ids"] = head.prompt_ids[prompt];
      AddTokenIds(choice, from.tokens);
    }
    choices.push_back(std::move(choice));
  }
  body["choices"] = std::move(choices);
  body["usage"] = OpenAiUsage(answer.usage);
  return body;
}

}  // namespace tidemill
