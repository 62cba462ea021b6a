// POST /v1/responses: the request.
#include <fmt/format.h>

#include <limits>

#include "gateway/control_fields.h"
#include "gateway/reasoning_seal.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

std::string CanonicalToolName(const std::optional<std::string>& name_space,
                              const std::string& name) {
  return name_space.has_value() && !name_space->empty() ? *name_space + "__" + name : name;
}

// Reads the items of a conversation. What the assistant did between two items of others (reasoning,
// messages, calls) is one message, as the model wrote it.
class ResponsesInput {
 public:
  ResponsesInput(WireParse& parse, WireJson& messages) : parse_(parse), messages_(messages) {}

  void Read(const WireJson& item, const WirePlace& at) {
    const std::string type = CheckedType(parse_, item, at, "input[]", "message");
    if (type == "message") return Message(item, at);
    if (type == "function_call") return Call(item, at);
    if (type == "function_call_output") return Output(item, at);
    if (type == "reasoning") return Reasoning(item, at);
  }

  // Call after the last item.
  void Close() {
    if (!open_) return;
    messages_.push_back(
        CanonicalAssistant(std::move(content_), std::move(reasoning_), std::move(calls_)));
    content_.clear();
    reasoning_.clear();
    calls_ = WireJson::array();
    open_ = false;
  }

 private:
  void Message(const WireJson& item, const WirePlace& at) {
    const bool ours = item.contains("role") && item["role"] == "assistant";
    const WireObject message(parse_, item, at,
                             ours ? "input[message assistant]" : "input[message]");
    std::string role = message.RequiredString("role");
    message.Require("content");
    if (ours) {
      open_ = true;
      content_ += ReadOpenAiContent(message, "content", "input[].content[]", JoinParts::kAsOne);
      return;
    }
    if (role == "developer") role = "system";
    if (!parse_.failed() && role != "system" && role != "user") {
      message.Fail("role", fmt::format("must be system, developer, user or assistant, got {}",
                                       ShownWire(role)));
    }
    Close();
    messages_.push_back(CanonicalMessage(
        role, ReadOpenAiContent(message, "content", "input[].content[]", JoinParts::kLines)));
  }

  void Call(const WireJson& item, const WirePlace& at) {
    const WireObject call(parse_, item, at, "input[function_call]");
    open_ = true;
    const std::string name =
        CanonicalToolName(call.String("namespace"), call.RequiredString("name"));
    calls_.push_back(CanonicalCall(call.RequiredString("call_id"), name,
                                   call.String("arguments").value_or(""), parse_.limits()));
  }

  void Output(const WireJson& item, const WirePlace& at) {
    const WireObject output(parse_, item, at, "input[function_call_output]");
    output.Require("output");
    Close();
    WireJson message = CanonicalMessage(
        "tool", ReadOpenAiContent(output, "output", "input[].content[]", JoinParts::kLines));
    message["tool_call_id"] = output.RequiredString("call_id");
    messages_.push_back(std::move(message));
  }

  void Reasoning(const WireJson& item, const WirePlace& at) {
    const WireObject reasoning(parse_, item, at, "input[reasoning]");
    std::string text =
        ReadOpenAiContent(reasoning, "content", "input[reasoning].content[]", JoinParts::kAsOne);
    if (text.empty()) {
      text = OpenReasoning(reasoning.String("encrypted_content").value_or("")).value_or("");
    }
    open_ = true;
    reasoning_ += text;
  }

  WireParse& parse_;
  WireJson& messages_;
  bool open_ = false;
  std::string content_;
  std::string reasoning_;
  WireJson calls_ = WireJson::array();
};

class ResponsesTools {
 public:
  ResponsesTools(WireParse& parse, ChatRequest& request)
      : parse_(parse), request_(request), list_(parse) {}

  void Read(const WireJson& value, const WirePlace& at, const std::string& name_space) {
    const std::string type = CheckedType(parse_, value, at, "tools[]", "");
    if (type == "function") return Function(value, at, name_space);
    if (type != "namespace") return;
    if (!name_space.empty()) {
      parse_.Fail(at, "a namespace cannot hold another");
      return;
    }
    const WireObject group(parse_, value, at, "tools[namespace]");
    const std::string name = group.RequiredString("name");
    group.Require("tools");
    group.List("tools", parse_.limits().tools,
               [&](const WireJson& tool, const WirePlace& place) { Read(tool, place, name); });
  }

 private:
  void Function(const WireJson& value, const WirePlace& at, const std::string& name_space) {
    const WireObject tool(parse_, value, at, "tools[function]");
    const std::string name = tool.RequiredString("name");
    const std::string canonical = CanonicalToolName(name_space, name);
    if (tool.Bool("strict").value_or(false)) request_.strict_tools.insert(canonical);
    WireJson made =
        list_.Make(canonical, tool.String("description"), tool.Object("parameters"), at);
    if (parse_.failed()) return;
    if (!name_space.empty()) request_.namespaced[canonical] = {name_space, name};
    request_.tools.push_back(std::move(made));
  }

  WireParse& parse_;
  ChatRequest& request_;
  ToolList list_;
};

void ReadResponsesAllowed(const WireObject& choice, ChatRequest& request) {
  std::set<std::string> names;
  WireParse& parse = choice.parse();
  choice.Require("tools");
  choice.List("tools", parse.limits().tools, [&](const WireJson& value, const WirePlace& at) {
    const WireObject tool(parse, value, at, "tool_choice.tools[]");
    const auto name = tool.String("name");  // absent: a hosted tool
    if (name.has_value()) names.insert(CanonicalToolName(tool.String("namespace"), *name));
  });
  KeepTools(request, names);
  const std::string mode = choice.String("mode").value_or("auto");
  if (mode == "required") {
    request.tool_choice.kind = ToolChoice::Kind::kRequired;
  } else if (mode != "auto") {
    choice.Fail("mode", R"(must be "auto" or "required")");
  }
}

void ReadResponsesToolChoice(const WireObject& body, ChatRequest& request) {
  const WireJson* value = body.Find("tool_choice");
  if (value == nullptr) return;
  request.echo["tool_choice"] = *value;
  WireParse& parse = body.parse();
  const WirePlace at = body.PlaceOf("tool_choice");
  if (value->is_string()) {
    if (*value == "none") {
      request.tool_choice.kind = ToolChoice::Kind::kNone;
    } else if (*value == "required") {
      request.tool_choice.kind = ToolChoice::Kind::kRequired;
    } else if (*value != "auto") {
      parse.Fail(at, R"(must be "auto", "none", "required" or name a function)");
    }
    return;
  }
  const std::string type = CheckedType(parse, *value, at, "tool_choice", "");
  if (type.empty()) return;
  const WireObject choice(parse, *value, at, "tool_choice");
  if (type == "allowed_tools") return ReadResponsesAllowed(choice, request);
  request.tool_choice = {
      ToolChoice::Kind::kNamed,
      CanonicalToolName(choice.String("namespace"), choice.RequiredString("name"))};
}

void ReadResponsesInclude(const WireObject& body, ChatRequest& request) {
  for (const std::string& word : body.Strings("include", 64)) {
    if (word == "reasoning.encrypted_content") request.encrypted_reasoning = true;
    if (word == "message.output_text.logprobs") request.sampling.logprobs = true;
  }
  const auto alternatives = body.Int("top_logprobs", 0, body.parse().limits().top_logprobs);
  request.sampling.top_logprobs = static_cast<int>(alternatives.value_or(0));
  if (request.sampling.top_logprobs > 0) request.sampling.logprobs = true;
}

void ReadResponsesOptions(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  if (const WireJson* options = body.Object("stream_options")) {
    const WireObject fields(parse, *options, body.PlaceOf("stream_options"), "stream_options");
  }
  if (const WireJson* text = body.Object("text")) {
    const WireObject fields(parse, *text, body.PlaceOf("text"), "text");
    ReadFormat(fields, "format", "text.format", request);
  }
  if (const WireJson* reasoning = body.Object("reasoning")) {
    const WireObject fields(parse, *reasoning, body.PlaceOf("reasoning"), "reasoning");
    if (const auto effort = fields.String("effort")) {
      SetEffort(request, *effort);
      request.echo["reasoning"] = {{"effort", *effort}, {"summary", nullptr}};
    }
  }
  if (const WireJson* metadata = body.Object("metadata")) request.echo["metadata"] = *metadata;
  for (const char* hint : {"prompt_cache_key", "session_id"}) AddHint(body, hint, hint, request);
  for (const char* field : {"metadata", "client_metadata"}) {
    body.Object(field);
    AddMetadataHints(body, field, request);
  }
}

}  // namespace

void ReadResponsesBody(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  request.model = body.RequiredString("model");
  request.stream = body.Bool("stream").value_or(false);
  request.return_token_ids = body.Bool("return_token_ids").value_or(false);
  request.parallel_tool_calls = body.Bool("parallel_tool_calls").value_or(true);
  ReadSampling(body, request.sampling);
  request.sampling.max_tokens =
      body.Int("max_output_tokens", 1, std::numeric_limits<int32_t>::max());
  ReadTemplateKwargs(body, request);
  ReadResponsesInclude(body, request);
  ReadResponsesOptions(body, request);
  ResponsesTools tools(parse, request);
  body.List("tools", parse.limits().tools,
            [&](const WireJson& tool, const WirePlace& at) { tools.Read(tool, at, ""); });
  ReadResponsesToolChoice(body, request);
  if (!parse.failed()) CheckToolChoice(body, request);

  if (const auto instructions = body.String("instructions")) {
    request.messages.push_back(CanonicalMessage("system", *instructions));
  }
  body.Require("input");
  const WireJson* input = body.Find("input");
  if (input == nullptr) return;
  if (input->is_string()) {
    request.messages.push_back(CanonicalMessage("user", input->get<std::string>()));
    return;
  }
  ResponsesInput items(parse, request.messages);
  body.List("input", parse.limits().messages,
            [&](const WireJson& item, const WirePlace& at) { items.Read(item, at); });
  items.Close();
  if (input->empty()) body.Fail("input", "must hold at least one item");
  if (!parse.failed()) NameToolMessages(request.messages);
}

}  // namespace tidemill
