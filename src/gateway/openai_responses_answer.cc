// POST /v1/responses: the answer.
#include <fmt/format.h>

#include "gateway/answer.h"
#include "gateway/reasoning_seal.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

std::string ItemId(std::string_view prefix, const AnswerHead& head, size_t index) {
  return fmt::format("{}{}i{}", prefix, head.id, index);
}

// The response object around `output`.
WireJson ResponseObject(const ChatRequest& request, const AnswerHead& head, WireJson output,
                        std::string_view status) {
  const auto echoed = [&](const char* key, WireJson otherwise) {
    return request.echo.contains(key) ? request.echo[key] : otherwise;
  };
  WireJson object = {{"id", "resp_" + head.id},
                     {"object", "response"},
                     {"created_at", head.created_s},
                     {"model", head.model},
                     {"status", status},
                     {"background", false},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"instructions", nullptr}};
  object["max_output_tokens"] = request.sampling.max_tokens.has_value()
                                    ? WireJson(*request.sampling.max_tokens)
                                    : WireJson(nullptr);
  object["metadata"] = echoed("metadata", WireJson::object());
  object["output"] = std::move(output);
  object["parallel_tool_calls"] = request.parallel_tool_calls;
  object["previous_response_id"] = nullptr;
  object["reasoning"] = echoed("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  object["store"] = false;
  object["temperature"] = request.sampling.temperature.value_or(1);
  object["text"] = {{"format", {{"type", "text"}}}};
  object["tool_choice"] = echoed("tool_choice", "auto");
  object["tools"] = WireJson::array();
  object["top_p"] = request.sampling.top_p.value_or(1);
  object["truncation"] = "disabled";
  object["usage"] = nullptr;
  return object;
}

WireJson ResponseUsage(const TokenUsage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

WireJson TextPart(const std::string& text, WireJson logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", WireJson::array()},
          {"logprobs", std::move(logprobs)}};
}

bool IsCut(const AnswerEnd& end) {
  return end.reason == AnswerEnd::Reason::kLength || end.reason == AnswerEnd::Reason::kContext;
}

// The name by which the client knows a tool.
const std::string& ClientName(const ChatRequest& request, const std::string& canonical) {
  const auto group = request.namespaced.find(canonical);
  return group == request.namespaced.end() ? canonical : group->second.name;
}

// One output item, `index` its place in the output. `done`: with all of its content; else as it is
// when it is added.
WireJson OutputItem(const ChatRequest& request, const AnswerHead& head, const AnswerPart& part,
                    size_t index, std::string_view status, WireJson logprobs, bool done) {
  switch (part.kind) {
    case AnswerPart::Kind::kReasoning: {
      WireJson item = {{"type", "reasoning"},
                       {"id", ItemId("rs_", head, index)},
                       {"summary", WireJson::array()},
                       {"content", WireJson::array()},
                       {"status", status}};
      if (!done) return item;
      item["content"].push_back({{"type", "reasoning_text"}, {"text", part.text}});
      if (request.encrypted_reasoning) item["encrypted_content"] = SealReasoning(part.text);
      return item;
    }
    case AnswerPart::Kind::kText: {
      WireJson item = {{"type", "message"},
                       {"id", ItemId("msg_", head, index)},
                       {"role", "assistant"},
                       {"status", status},
                       {"content", WireJson::array()}};
      if (done) item["content"].push_back(TextPart(part.text, std::move(logprobs)));
      return item;
    }
    case AnswerPart::Kind::kCall:
      break;
  }
  WireJson item = {{"type", "function_call"},
                   {"id", ItemId("fc_", head, index)},
                   {"call_id", CallId("call_", head, 0, part.call)},
                   {"name", ClientName(request, part.name)},
                   {"arguments", done ? part.text : ""},
                   {"status", status}};
  const auto group = request.namespaced.find(part.name);
  if (group != request.namespaced.end()) item["namespace"] = group->second.name_space;
  return item;
}

void EndResponse(const ChatRequest& request, const AnswerHead& head, const AnswerEnd& end,
                 const TokenUsage& usage, const std::vector<TokenRecord>& tokens,
                 WireJson& response) {
  response["status"] = IsCut(end) ? "incomplete" : "completed";
  if (IsCut(end)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = ResponseUsage(usage);
  if (!request.return_token_ids) return;
  if (!head.prompt_ids.empty()) response["prompt_token_ids"] = head.prompt_ids[0];
  AddTokenIds(response, tokens);
  if (!response["output"].empty()) AddGeneration(response["output"].back(), head, tokens);
}

// Keeps the items that are done and the one that is open, if any.
class ResponsesStream final : public AnswerStream {
 public:
  ResponsesStream(const ChatRequest& request, AnswerHead head)
      : request_(request), head_(std::move(head)) {}

  std::string Open(const TokenUsage&) override {
    const WireJson response = ResponseObject(request_, head_, WireJson::array(), "in_progress");
    std::string bytes = Event("response.created", {{"response", response}});
    bytes += Event("response.in_progress", {{"response", response}});
    return bytes;
  }

  std::string Write(const AnswerDelta& delta) override {
    if (request_.return_token_ids) {
      tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
    }
    if (request_.sampling.logprobs) {
      waiting_.insert(waiting_.end(), delta.tokens.begin(), delta.tokens.end());
    }
    std::string bytes;
    for (const OutputEvent& event : delta.events) bytes += Take(event);
    return bytes;
  }

  std::string Finish(int, const AnswerEnd& end) override {
    end_ = end;
    return CloseItem(IsCut(end) ? "incomplete" : "completed");
  }

  std::string Close(const TokenUsage& usage) override {
    WireJson response = ResponseObject(request_, head_, done_, "completed");
    EndResponse(request_, head_, end_, usage, tokens_, response);
    return Event(IsCut(end_) ? "response.incomplete" : "response.completed",
                 {{"response", std::move(response)}});
  }

  std::string Fail(const ApiError& error) override {
    WireJson response = ResponseObject(request_, head_, done_, "failed");
    response["error"] = {{"code", error.code.empty() ? "server_error" : error.code},
                         {"message", error.message}};
    return Event("response.failed", {{"response", std::move(response)}});
  }

 private:
  std::string Event(std::string_view type, const WireJson& fields) {
    WireJson event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(fields);
    return ServerSentEvent(type, event);
  }

  size_t index() const { return done_.size(); }

  std::string item_id() const {
    switch (part_.kind) {
      case AnswerPart::Kind::kText:
        return ItemId("msg_", head_, index());
      case AnswerPart::Kind::kReasoning:
        return ItemId("rs_", head_, index());
      case AnswerPart::Kind::kCall:
        return ItemId("fc_", head_, index());
    }
    return {};
  }

  // {item_id, output_index} and, for what has parts, content_index; then `fields`.
  WireJson AtItem(const WireJson& fields) const {
    WireJson at = {{"item_id", item_id()}, {"output_index", index()}};
    if (part_.kind != AnswerPart::Kind::kCall) at["content_index"] = 0;
    at.update(fields);
    return at;
  }

  std::string Take(const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
        return Text(AnswerPart::Kind::kText, event.text);
      case OutputEvent::Kind::kReasoning:
        return Text(AnswerPart::Kind::kReasoning, event.text);
      case OutputEvent::Kind::kCallBegin:
        waiting_.clear();
        return OpenItem({.kind = AnswerPart::Kind::kCall, .name = event.text, .call = event.call});
      case OutputEvent::Kind::kCallArguments:
        waiting_.clear();
        part_.text += event.text;
        return Event("response.function_call_arguments.delta", AtItem({{"delta", event.text}}));
      case OutputEvent::Kind::kCallEnd:
        waiting_.clear();
        return CloseItem("completed");
    }
    return {};
  }

  std::string Text(AnswerPart::Kind kind, const std::string& text) {
    if (text.empty()) return {};
    std::string bytes;
    if (!open_ || part_.kind != kind) bytes = OpenItem({.kind = kind});
    part_.text += text;
    WireJson fields = {{"delta", text}};
    if (kind == AnswerPart::Kind::kText) {
      WireJson logprobs = TokenLogprobs(waiting_, request_.sampling.top_logprobs);
      logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
      fields["logprobs"] = std::move(logprobs);
    }
    waiting_.clear();
    return bytes + Event(kind == AnswerPart::Kind::kText ? "response.output_text.delta"
                                                         : "response.reasoning_text.delta",
                         AtItem(fields));
  }

  // Closes the one before, if it is open.
  std::string OpenItem(AnswerPart part) {
    std::string bytes = CloseItem("completed");
    part_ = std::move(part);
    open_ = true;
    logprobs_ = WireJson::array();
    bytes += Event(
        "response.output_item.added",
        {{"output_index", index()},
         {"item", OutputItem(request_, head_, part_, index(), "in_progress", nullptr, false)}});
    if (part_.kind == AnswerPart::Kind::kCall) return bytes;
    return bytes + Event("response.content_part.added", AtItem({{"part", ContentPart("")}}));
  }

  WireJson ContentPart(const std::string& text) const {
    if (part_.kind == AnswerPart::Kind::kText) return TextPart(text, logprobs_);
    return {{"type", "reasoning_text"}, {"text", text}};
  }

  std::string CloseItem(std::string_view status) {
    if (!open_) return {};
    std::string bytes;
    switch (part_.kind) {
      case AnswerPart::Kind::kText:
        bytes = Event("response.output_text.done",
                      AtItem({{"text", part_.text}, {"logprobs", logprobs_}}));
        break;
      case AnswerPart::Kind::kReasoning:
        bytes = Event("response.reasoning_text.done", AtItem({{"text", part_.text}}));
        break;
      case AnswerPart::Kind::kCall:
        bytes =
            Event("response.function_call_arguments.done",
                  AtItem({{"name", ClientName(request_, part_.name)}, {"arguments", part_.text}}));
        break;
    }
    if (part_.kind != AnswerPart::Kind::kCall) {
      bytes += Event("response.content_part.done", AtItem({{"part", ContentPart(part_.text)}}));
    }
    WireJson item = OutputItem(request_, head_, part_, index(), status, logprobs_, true);
    bytes += Event("response.output_item.done", {{"output_index", index()}, {"item", item}});
    done_.push_back(std::move(item));
    open_ = false;
    return bytes;
  }

  const ChatRequest& request_;
  const AnswerHead head_;
  int64_t sequence_ = 0;
  WireJson done_ = WireJson::array();
  bool open_ = false;
  AnswerPart part_;                        // the open item
  WireJson logprobs_ = WireJson::array();  // of the open item's text
  std::vector<TokenRecord> waiting_;       // sampled, their text not yet here
  std::vector<TokenRecord> tokens_;        // all, where they are asked for
  AnswerEnd end_;
};

}  // namespace

std::unique_ptr<AnswerStream> MakeResponsesStream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<ResponsesStream>(request, std::move(head));
}

WireJson ResponsesBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  const AnswerChoice& choice = answer.choices.at(0);
  WireJson output = WireJson::array();
  for (size_t i = 0; i < choice.parts.size(); ++i) {
    const bool cut = IsCut(choice.end) && i + 1 == choice.parts.size();
    const AnswerPart& part = choice.parts[i];
    WireJson logprobs = WireJson::array();
    if (request.sampling.logprobs && part.kind == AnswerPart::Kind::kText) {
      const std::span<const TokenRecord> tokens(choice.tokens);
      logprobs = TokenLogprobs(tokens.subspan(part.token_begin, part.token_end - part.token_begin),
                               request.sampling.top_logprobs);
    }
    output.push_back(OutputItem(request, head, part, i, cut ? "incomplete" : "completed",
                                std::move(logprobs), true));
  }
  WireJson body = ResponseObject(request, head, std::move(output), "completed");
  EndResponse(request, head, choice.end, answer.usage, choice.tokens, body);
  return body;
}

}  // namespace tidemill
