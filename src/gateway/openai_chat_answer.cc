// POST /v1/chat/completions: the answer.
#include "gateway/answer.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

WireJson ChatHead(const AnswerHead& head, std::string_view object) {
  return {{"id", "chatcmpl-" + head.id},
          {"object", object},
          {"created", head.created_s},
          {"model", head.model}};
}

class ChatStream final : public AnswerStream {
 public:
  ChatStream(const ChatRequest& request, AnswerHead head)
      : request_(request),
        head_(std::move(head)),
        before_choice_(ChunkBegin(ChatHead(head_, "chat.completion.chunk"))),
        has_calls_(static_cast<size_t>(ChoiceCount(request)), false) {}

  std::string Open(const TokenUsage&) override {
    std::string bytes;
    for (size_t i = 0; i < has_calls_.size(); ++i) {
      const WireJson choice = Choice(static_cast<int>(i), {{"role", "assistant"}, {"content", ""}});
      if (i > 0 || !request_.return_token_ids || head_.prompt_ids.empty()) {
        bytes += Chunk(choice);
        continue;
      }
      WireJson chunk = ChatHead(head_, "chat.completion.chunk");
      chunk["prompt_token_ids"] = head_.prompt_ids[0];
      chunk["choices"] = WireJson::array({choice});
      bytes += ServerSentEvent("", chunk);
    }
    return bytes;
  }

  std::string Write(const AnswerDelta& delta) override {
    std::string bytes;
    bool with_tokens =
        !delta.tokens.empty() && (request_.sampling.logprobs || request_.return_token_ids);
    const auto chunk = [&](WireJson change) {
      WireJson choice = Choice(delta.choice, std::move(change));
      if (with_tokens) AddTokens(choice, delta.tokens);
      with_tokens = false;
      bytes += Chunk(choice);
    };
    for (const OutputEvent& event : delta.events) {
      WireJson change = Change(event, delta.choice);
      if (!change.is_null()) chunk(std::move(change));
    }
    if (with_tokens) chunk(WireJson::object());
    return bytes;
  }

  std::string Finish(int choice, const AnswerEnd& end) override {
    WireJson last = Choice(choice, WireJson::object());
    last["finish_reason"] = OpenAiFinish(end, has_calls_[static_cast<size_t>(choice)]);
    return Chunk(last);
  }

  std::string Close(const TokenUsage& usage) override {
    std::string bytes;
    if (request_.include_usage) {
      WireJson chunk = ChatHead(head_, "chat.completion.chunk");
      chunk["choices"] = WireJson::array();
      chunk["usage"] = OpenAiUsage(usage);
      bytes = ServerSentEvent("", chunk);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string Fail(const ApiError& error) override {
    return ServerSentEvent("", {{"error", ErrorObject(Api::kChat, error)}});
  }

 private:
  static WireJson Choice(int index, WireJson delta) {
    return {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
  }

  std::string Chunk(const WireJson& choice) const {
    return before_choice_ + DumpWire(choice) + std::string(kChunkEnd);
  }

  void AddTokens(WireJson& choice, const std::vector<TokenRecord>& tokens) const {
    if (request_.sampling.logprobs) {
      choice["logprobs"] = {{"content", TokenLogprobs(tokens, request_.sampling.top_logprobs,
                                                      request_.tokens_as_ids)},
                            {"refusal", nullptr}};
    }
    if (request_.return_token_ids) AddTokenIds(choice, tokens);
  }

  // Null: the event is nothing to the client.
  WireJson Change(const OutputEvent& event, int choice) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
        return event.text.empty() ? WireJson() : WireJson{{"content", event.text}};
      case OutputEvent::Kind::kReasoning:
        return event.text.empty() ? WireJson() : WireJson{{"reasoning_content", event.text}};
      case OutputEvent::Kind::kCallBegin: {
        has_calls_[static_cast<size_t>(choice)] = true;
        WireJson call = {{"index", event.call},
                         {"id", CallId("call_", head_, choice, event.call)},
                         {"type", "function"},
                         {"function", {{"name", event.text}, {"arguments", ""}}}};
        return {{"tool_calls", WireJson::array({std::move(call)})}};
      }
      case OutputEvent::Kind::kCallArguments: {
        WireJson call = {{"index", event.call}, {"function", {{"arguments", event.text}}}};
        return {{"tool_calls", WireJson::array({std::move(call)})}};
      }
      case OutputEvent::Kind::kCallEnd:
        break;
    }
    return nullptr;
  }

  const ChatRequest& request_;
  const AnswerHead head_;
  const std::string before_choice_;  // the same in every chunk, and there are many
  std::vector<bool> has_calls_;
};

WireJson ChatMessage(const ChatRequest& request, const AnswerHead& head, const AnswerChoice& choice,
                     int index) {
  const std::string before = request.echoes ? request.prefill.value_or("") : "";
  const std::string text = before + choice.TextOf(AnswerPart::Kind::kText);
  const std::string reasoning = choice.TextOf(AnswerPart::Kind::kReasoning);
  const bool has_calls = choice.HasCalls();
  WireJson message = {{"role", "assistant"}};
  message["content"] = text.empty() && has_calls ? WireJson(nullptr) : WireJson(text);
  message["refusal"] = nullptr;
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!has_calls) return message;
  WireJson calls = WireJson::array();
  for (const AnswerPart& part : choice.parts) {
    if (part.kind != AnswerPart::Kind::kCall) continue;
    calls.push_back({{"id", CallId("call_", head, index, part.call)},
                     {"type", "function"},
                     {"function", {{"name", part.name}, {"arguments", part.text}}}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace

std::unique_ptr<AnswerStream> MakeChatStream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<ChatStream>(request, std::move(head));
}

WireJson ChatBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  WireJson body = ChatHead(head, "chat.completion");
  if (request.return_token_ids && !head.prompt_ids.empty()) {
    body["prompt_token_ids"] = head.prompt_ids[0];
  }
  WireJson choices = WireJson::array();
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const AnswerChoice& from = answer.choices[i];
    WireJson choice = {{"index", i}};
    choice["message"] = ChatMessage(request, head, from, static_cast<int>(i));
    choice["logprobs"] =
        request.sampling.logprobs
            ? WireJson{{"content", TokenLogprobs(from.tokens, request.sampling.top_logprobs,
                                                 request.tokens_as_ids)},
                       {"refusal", nullptr}}
            : WireJson(nullptr);
    choice["finish_reason"] = OpenAiFinish(from.end, from.HasCalls());
    if (request.return_token_ids) {
      AddTokenIds(choice, from.tokens);
      AddGeneration(choice["message"], head, from.tokens);
    }
    choices.push_back(std::move(choice));
  }
  body["choices"] = std::move(choices);
  body["usage"] = OpenAiUsage(answer.usage);
  if (request.sampling.prompt_logprobs) {
    body["prompt_logprobs"] = PromptLogprobs(answer.choices[0].prompt);
  }
  return body;
}

}  // namespace tidemill
