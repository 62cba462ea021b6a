#include "gateway/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "gateway/wire_json.h"

namespace tidemill {

void AnswerChoice::Add(const AnswerDelta& delta) {
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  for (const OutputEvent& event : delta.events) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
      case OutputEvent::Kind::kReasoning: {
        const auto kind = event.kind == OutputEvent::Kind::kText ? AnswerPart::Kind::kText
                                                                 : AnswerPart::Kind::kReasoning;
        if (event.text.empty()) continue;
        if (parts.empty() || parts.back().kind != kind) {
          parts.push_back({.kind = kind, .token_begin = attributed_});
        }
        parts.back().text += event.text;
        parts.back().token_end = tokens.size();
        break;
      }
      case OutputEvent::Kind::kCallBegin:
        parts.push_back({.kind = AnswerPart::Kind::kCall, .name = event.text, .call = event.call});
        break;
      case OutputEvent::Kind::kCallArguments: {
        const auto part = std::find_if(parts.rbegin(), parts.rend(), [&](const AnswerPart& p) {
          return p.kind == AnswerPart::Kind::kCall && p.call == event.call;
        });
        TM_CHECK(part != parts.rend(), "arguments of a call that did not begin");
        part->text += event.text;
        break;
      }
      case OutputEvent::Kind::kCallEnd:
        break;
    }
    attributed_ = tokens.size();
  }
}

std::string AnswerChoice::TextOf(AnswerPart::Kind kind) const {
  std::string all;
  for (const AnswerPart& part : parts) {
    if (part.kind == kind) all += part.text;
  }
  return all;
}

bool AnswerChoice::HasCalls() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const AnswerPart& part) { return part.kind == AnswerPart::Kind::kCall; });
}

int ChoiceCount(const ChatRequest& request) {
  return request.sampling.n * static_cast<int>(std::max<size_t>(1, request.prompts.size()));
}

std::unique_ptr<AnswerStream> MakeAnswerStream(const ChatRequest& request, AnswerHead head) {
  switch (request.api) {
    case Api::kChat:
      return MakeChatStream(request, std::move(head));
    case Api::kCompletions:
      return MakeCompletionsStream(request, std::move(head));
    case Api::kResponses:
      return MakeResponsesStream(request, std::move(head));
    case Api::kMessages:
    case Api::kCountTokens:
      return MakeMessagesStream(request, std::move(head));
    case Api::kGenerate:
      return MakeGenerateStream(request, std::move(head));
    case Api::kTokenize:
    case Api::kDetokenize:
    case Api::kEmbeddings:
      break;
  }
  return nullptr;
}

std::string WholeBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  switch (request.api) {
    case Api::kChat:
      return DumpWire(ChatBody(request, head, answer));
    case Api::kCompletions:
      return DumpWire(CompletionsBody(request, head, answer));
    case Api::kResponses:
      return DumpWire(ResponsesBody(request, head, answer));
    case Api::kMessages:
      return DumpWire(MessagesBody(request, head, answer));
    case Api::kCountTokens:
      return DumpWire({{"input_tokens", answer.usage.prompt}});
    case Api::kGenerate:
      return DumpWire(GenerateBody(request, head, answer));
    case Api::kEmbeddings:
      return DumpWire(EmbeddingsBody(request, head, answer));
    case Api::kTokenize:
    case Api::kDetokenize:
      break;
  }
  return {};
}

std::string CallId(std::string_view prefix, const AnswerHead& head, int choice, int call) {
  if (choice == 0) return fmt::format("{}{}c{}", prefix, head.id, call);
  return fmt::format("{}{}n{}c{}", prefix, head.id, choice, call);
}

WireJson OpenAiUsage(const TokenUsage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

std::string ChunkBegin(const WireJson& head) {
  std::string begin = DumpWire(head);
  begin.pop_back();  // the brace
  return "data: " + begin + ",\"choices\":[";
}

std::string_view OpenAiFinish(const AnswerEnd& end, bool has_calls) {
  if (end.reason == AnswerEnd::Reason::kLength || end.reason == AnswerEnd::Reason::kContext) {
    return "length";
  }
  return has_calls ? "tool_calls" : "stop";
}

namespace {

WireJson TokenLogprob(int32_t id, const std::string& bytes, float logprob, bool as_id) {
  WireJson numbers = WireJson::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {{"token", as_id ? fmt::format("token_id:{}", id) : ToUtf8(bytes)},
          {"logprob", logprob},
          {"bytes", std::move(numbers)}};
}

}  // namespace

WireJson TokenLogprobs(std::span<const TokenRecord> tokens, int alternatives, bool tokens_as_ids) {
  WireJson list = WireJson::array();
  for (const TokenRecord& token : tokens) {
    WireJson entry = TokenLogprob(token.id, token.bytes, token.logprob, tokens_as_ids);
    WireJson top = WireJson::array();
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(alternatives); ++i) {
      const TopToken& one = token.top[i];
      top.push_back(TokenLogprob(one.id, one.bytes, one.logprob, tokens_as_ids));
    }
    entry["top_logprobs"] = std::move(top);
    list.push_back(std::move(entry));
  }
  return list;
}

void AddTokenIds(WireJson& object, const std::vector<TokenRecord>& tokens) {
  WireJson ids = WireJson::array();
  WireJson logprobs = WireJson::array();
  WireJson draws = WireJson::array();
  WireJson versions = WireJson::array();
  for (const TokenRecord& token : tokens) {
    ids.push_back(token.id);
    logprobs.push_back(token.logprob);
    draws.push_back(token.draw_logprob);
    versions.push_back(token.version);
  }
  object["token_ids"] = std::move(ids);
  object["token_logprobs"] = std::move(logprobs);
  object["draw_logprobs"] = std::move(draws);
  object["policy_versions"] = std::move(versions);
}

WireJson PromptLogprobs(const std::vector<PromptRecord>& prompt) {
  WireJson list = WireJson::array();
  for (const PromptRecord& one : prompt) {
    if (!one.scored) {
      list.push_back(nullptr);
      continue;
    }
    WireJson by_id = WireJson::object();
    by_id[std::to_string(one.token.id)] = {{"logprob", one.token.logprob},
                                           {"decoded_token", ToUtf8(one.token.bytes)}};
    for (size_t i = 0; i < one.token.top.size(); ++i) {
      const TopToken& top = one.token.top[i];
      by_id[std::to_string(top.id)] = {
          {"logprob", top.logprob}, {"rank", i + 1}, {"decoded_token", ToUtf8(top.bytes)}};
    }
    list.push_back(std::move(by_id));
  }
  return list;
}

}  // namespace tidemill
