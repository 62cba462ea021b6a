// POST /v1/messages: the answer.
#include "gateway/answer.h"
#include "gateway/reasoning_seal.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

WireJson MessagesUsage(const TokenUsage& usage) {
  WireJson object = {{"input_tokens", usage.prompt - usage.cached},
                     {"cache_creation_input_tokens", 0},
                     {"cache_read_input_tokens", usage.cached},
                     {"output_tokens", usage.completion}};
  if (usage.reasoning > 0) object["output_tokens_details"] = {{"thinking_tokens", usage.reasoning}};
  return object;
}

std::string_view StopReason(const AnswerEnd& end, bool has_calls) {
  switch (end.reason) {
    case AnswerEnd::Reason::kLength:
      return "max_tokens";
    case AnswerEnd::Reason::kContext:
      return "model_context_window_exceeded";
    case AnswerEnd::Reason::kStopString:
      return has_calls ? "tool_use" : "stop_sequence";
    case AnswerEnd::Reason::kTurnEnd:
      break;
  }
  return has_calls ? "tool_use" : "end_turn";
}

WireJson StopSequence(const AnswerEnd& end, bool has_calls) {
  return StopReason(end, has_calls) == "stop_sequence" ? WireJson(end.stop) : WireJson(nullptr);
}

WireJson MessageObject(const AnswerHead& head, WireJson content, const TokenUsage& usage) {
  return {{"id", "msg_" + head.id},        {"type", "message"},
          {"role", "assistant"},           {"model", head.model},
          {"content", std::move(content)}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr},      {"usage", MessagesUsage(usage)}};
}

class MessagesStream final : public AnswerStream {
 public:
  MessagesStream(const ChatRequest& request, AnswerHead head)
      : request_(request), head_(std::move(head)) {}

  std::string Open(const TokenUsage& usage) override {
    return Event("message_start", {{"message", MessageObject(head_, WireJson::array(), usage)}});
  }

  std::string Write(const AnswerDelta& delta) override {
    if (request_.return_token_ids) {
      tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
    }
    std::string bytes;
    for (const OutputEvent& event : delta.events) bytes += Take(event);
    return bytes;
  }

  std::string Finish(int, const AnswerEnd& end) override {
    end_ = end;
    return CloseBlock();
  }

  std::string Close(const TokenUsage& usage) override {
    WireJson fields = {{"delta",
                        {{"stop_reason", StopReason(end_, has_calls_)},
                         {"stop_sequence", StopSequence(end_, has_calls_)}}},
                       {"usage", MessagesUsage(usage)}};
    if (request_.return_token_ids) {
      if (!head_.prompt_ids.empty()) fields["prompt_token_ids"] = head_.prompt_ids[0];
      AddTokenIds(fields, tokens_);
    }
    return Event("message_delta", fields) + Event("message_stop", WireJson::object());
  }

  std::string Fail(const ApiError& error) override {
    return Event("error", {{"error", ErrorObject(Api::kMessages, error)}});
  }

  std::string Heartbeat() const override { return Event("ping", WireJson::object()); }

 private:
  static std::string Event(std::string_view type, const WireJson& fields) {
    WireJson event = {{"type", type}};
    event.update(fields);
    return ServerSentEvent(type, event);
  }

  std::string Delta(WireJson delta) const {
    return Event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }

  // Closes the one before, if it is open.
  std::string OpenBlock(AnswerPart::Kind kind, WireJson block) {
    std::string bytes = CloseBlock();
    kind_ = kind;
    open_ = true;
    reasoning_.clear();
    bytes += Event("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
    return bytes;
  }

  std::string CloseBlock() {
    if (!open_) return {};
    std::string bytes;
    if (kind_ == AnswerPart::Kind::kReasoning) {
      bytes = Delta({{"type", "signature_delta"},
                     {"signature", SealReasoning(request_.hide_reasoning ? reasoning_ : "")}});
    }
    open_ = false;
    bytes += Event("content_block_stop", {{"index", index_++}});
    return bytes;
  }

  std::string Take(const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
        return Text(event.text);
      case OutputEvent::Kind::kReasoning:
        return Reasoning(event.text);
      case OutputEvent::Kind::kCallBegin:
        has_calls_ = true;
        return OpenBlock(AnswerPart::Kind::kCall, {{"type", "tool_use"},
                                                   {"id", CallId("toolu_", head_, 0, event.call)},
                                                   {"name", event.text},
                                                   {"input", WireJson::object()}});
      case OutputEvent::Kind::kCallArguments:
        return Delta({{"type", "input_json_delta"}, {"partial_json", event.text}});
      case OutputEvent::Kind::kCallEnd:
        return CloseBlock();
    }
    return {};
  }

  std::string Text(const std::string& text) {
    if (text.empty()) return {};
    std::string bytes;
    if (!open_ || kind_ != AnswerPart::Kind::kText) {
      bytes = OpenBlock(AnswerPart::Kind::kText, {{"type", "text"}, {"text", ""}});
    }
    return bytes + Delta({{"type", "text_delta"}, {"text", text}});
  }

  std::string Reasoning(const std::string& text) {
    if (text.empty()) return {};
    std::string bytes;
    if (!open_ || kind_ != AnswerPart::Kind::kReasoning) {
      bytes = OpenBlock(AnswerPart::Kind::kReasoning,
                        {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    }
    reasoning_ += text;
    if (request_.hide_reasoning) return bytes;
    return bytes + Delta({{"type", "thinking_delta"}, {"thinking", text}});
  }

  const ChatRequest& request_;
  const AnswerHead head_;
  size_t index_ = 0;  // of the open block, or of the next
  bool open_ = false;
  AnswerPart::Kind kind_ = AnswerPart::Kind::kText;
  std::string reasoning_;  // of the open block
  bool has_calls_ = false;
  std::vector<TokenRecord> tokens_;  // all, where they are asked for
  AnswerEnd end_;
};

// The arguments as an object. Those of a call that was cut off are none.
WireJson CallInput(const std::string& arguments) {
  Result<WireJson> parsed = ParseWire(arguments, WireLimits{});
  return parsed.ok() && parsed->is_object() ? std::move(*parsed) : WireJson::object();
}

}  // namespace

std::unique_ptr<AnswerStream> MakeMessagesStream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<MessagesStream>(request, std::move(head));
}

WireJson MessagesBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  const AnswerChoice& choice = answer.choices.at(0);
  WireJson content = WireJson::array();
  for (const AnswerPart& part : choice.parts) {
    switch (part.kind) {
      case AnswerPart::Kind::kText:
        content.push_back({{"type", "text"}, {"text", part.text}});
        break;
      case AnswerPart::Kind::kReasoning:
        content.push_back({{"type", "thinking"},
                           {"thinking", request.hide_reasoning ? "" : part.text},
                           {"signature", SealReasoning(request.hide_reasoning ? part.text : "")}});
        break;
      case AnswerPart::Kind::kCall:
        content.push_back({{"type", "tool_use"},
                           {"id", CallId("toolu_", head, 0, part.call)},
                           {"name", part.name},
                           {"input", CallInput(part.text)}});
        break;
    }
  }
  WireJson body = MessageObject(head, std::move(content), answer.usage);
  body["stop_reason"] = StopReason(choice.end, choice.HasCalls());
  body["stop_sequence"] = StopSequence(choice.end, choice.HasCalls());
  if (request.return_token_ids) {
    if (!head.prompt_ids.empty()) body["prompt_token_ids"] = head.prompt_ids[0];
    AddTokenIds(body, choice.tokens);
  }
  return body;
}

}  // namespace tidemill
