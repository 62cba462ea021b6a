// POST /v1/chat/completions: the request.
#include <fmt/format.h>

#include <limits>

#include "gateway/control_fields.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

void ReadChatTools(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  ToolList tools(parse);
  body.List("tools", parse.limits().tools, [&](const WireJson& value, const WirePlace& at) {
    if (CheckedType(parse, value, at, "tools[]", "function").empty()) return;
    const WireObject tool(parse, value, at, "tools[]");
    tool.Require("function");
    if (parse.failed()) return;
    const WirePlace function_at = tool.PlaceOf("function");
    const WireObject function(parse, *tool.Find("function"), function_at, "tools[].function");
    const std::string name = function.RequiredString("name");
    WireJson made = tools.Make(name, function.String("description"), function.Object("parameters"),
                               function_at);
    if (function.Bool("strict").value_or(false)) request.strict_tools.insert(name);
    if (!parse.failed()) request.tools.push_back(std::move(made));
  });
}

void ReadAllowedTools(const WireObject& choice, ChatRequest& request) {
  WireParse& parse = choice.parse();
  choice.Require("allowed_tools");
  if (parse.failed()) return;
  const WireObject allowed(parse, *choice.Find("allowed_tools"), choice.PlaceOf("allowed_tools"),
                           "tool_choice.allowed_tools");
  std::set<std::string> names;
  allowed.Require("tools");
  allowed.List("tools", parse.limits().tools, [&](const WireJson& value, const WirePlace& at) {
    const WireObject tool(parse, value, at, "tool_choice.allowed_tools.tools[]");
    tool.Require("function");
    if (parse.failed()) return;
    const WireObject function(parse, *tool.Find("function"), tool.PlaceOf("function"),
                              "tool_choice.allowed_tools.tools[].function");
    names.insert(function.RequiredString("name"));
  });
  KeepTools(request, names);
  const std::string mode = allowed.String("mode").value_or("auto");
  if (mode == "required") {
    request.tool_choice.kind = ToolChoice::Kind::kRequired;
  } else if (mode != "auto") {
    allowed.Fail("mode", R"(must be "auto" or "required")");
  }
}

void ReadChatToolChoice(const WireObject& body, ChatRequest& request) {
  const WireJson* value = body.Find("tool_choice");
  if (value == nullptr) return;
  WireParse& parse = body.parse();
  const WirePlace at = body.PlaceOf("tool_choice");
  if (value->is_string()) {
    const std::string word = value->get<std::string>();
    if (word == "none") {
      request.tool_choice.kind = ToolChoice::Kind::kNone;
    } else if (word == "required" || word == "any") {
      request.tool_choice.kind = ToolChoice::Kind::kRequired;
    } else if (word != "auto") {
      parse.Fail(at, R"(must be "auto", "none", "required" or name a function)");
    }
    return;
  }
  const std::string type = CheckedType(parse, *value, at, "tool_choice", "function");
  if (type.empty()) return;
  const WireObject choice(parse, *value, at, "tool_choice");
  if (type == "allowed_tools") return ReadAllowedTools(choice, request);
  choice.Require("function");
  if (parse.failed()) return;
  const WireObject function(parse, *choice.Find("function"), choice.PlaceOf("function"),
                            "tool_choice.function");
  request.tool_choice = {ToolChoice::Kind::kNamed, function.RequiredString("name")};
}

WireJson ReadChatCall(WireParse& parse, const WireJson& value, const WirePlace& at) {
  if (CheckedType(parse, value, at, "messages[].tool_calls[]", "function").empty()) return nullptr;
  const WireObject call(parse, value, at, "messages[].tool_calls[]");
  call.Require("function");
  if (parse.failed()) return nullptr;
  const WireObject function(parse, *call.Find("function"), call.PlaceOf("function"),
                            "messages[].tool_calls[].function");
  const std::string id = call.String("id").value_or("");
  const std::string name = function.RequiredString("name");
  const WireJson* arguments = function.Find("arguments");
  if (arguments != nullptr && arguments->is_object()) {
    return CanonicalCall(id, name, DumpWire(*arguments), parse.limits());
  }
  return CanonicalCall(id, name, function.String("arguments").value_or(""), parse.limits());
}

WireJson ReadAssistantMessage(WireParse& parse, const WireJson& value, const WirePlace& at) {
  const WireObject message(parse, value, at, "messages[assistant]");
  std::string content =
      ReadOpenAiContent(message, "content", "messages[].content[]", JoinParts::kAsOne);
  if (content.empty()) content = message.String("refusal").value_or("");
  std::string reasoning = message.String("reasoning_content").value_or("");
  const WireJson* other = message.Find("reasoning");
  if (reasoning.empty() && other != nullptr && other->is_string()) reasoning = *other;
  WireJson calls = WireJson::array();
  message.List("tool_calls", parse.limits().parts,
               [&](const WireJson& call, const WirePlace& place) {
                 calls.push_back(ReadChatCall(parse, call, place));
               });
  WireJson canonical =
      CanonicalAssistant(std::move(content), std::move(reasoning), std::move(calls));
  if (const auto name = message.String("name")) canonical["name"] = *name;
  return canonical;
}

WireJson ReadChatMessage(WireParse& parse, const WireJson& value, const WirePlace& at) {
  const std::string given = value.is_object() && value.contains("role") && value["role"].is_string()
                                ? value["role"].get<std::string>()
                                : "";
  if (given == "assistant") return ReadAssistantMessage(parse, value, at);
  const WireObject message(parse, value, at, "messages[]");
  std::string role = message.RequiredString("role");
  if (role == "developer") role = "system";
  if (!parse.failed() && role != "system" && role != "user" && role != "tool") {
    message.Fail("role", fmt::format("must be system, developer, user, assistant or tool, got {}",
                                     ShownWire(role)));
  }
  message.Require("content");
  WireJson canonical = CanonicalMessage(
      role, ReadOpenAiContent(message, "content", "messages[].content[]", JoinParts::kLines));
  if (role == "tool") {
    canonical["tool_call_id"] = message.RequiredString("tool_call_id");
    if (message.Bool("is_error").value_or(false)) canonical["is_error"] = true;
  }
  if (const auto name = message.String("name")) canonical["name"] = *name;
  return canonical;
}

void ReadMessages(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  body.Require("messages");
  body.List("messages", parse.limits().messages, [&](const WireJson& value, const WirePlace& at) {
    WireJson message = ReadChatMessage(parse, value, at);
    if (!parse.failed()) request.messages.push_back(std::move(message));
  });
  if (request.messages.empty()) body.Fail("messages", "must hold at least one message");
  if (!parse.failed()) NameToolMessages(request.messages);
}

void ReadChatReasoning(const WireObject& body, ChatRequest& request) {
  if (const auto effort = body.String("reasoning_effort")) SetEffort(request, *effort);
  if (const auto enabled = body.Bool("enable_thinking")) SetThinking(request, *enabled);
  if (const WireJson* reasoning = body.Object("reasoning")) {
    const WireObject fields(body.parse(), *reasoning, body.PlaceOf("reasoning"), "reasoning");
    if (const auto effort = fields.String("effort")) SetEffort(request, *effort);
    if (const auto enabled = fields.Bool("enabled")) SetThinking(request, *enabled);
  }
  if (const WireJson* thinking = body.Object("thinking")) {
    const WireObject fields(body.parse(), *thinking, body.PlaceOf("thinking"), "thinking");
    const std::string type = fields.RequiredString("type");
    if (type == "enabled" || type == "disabled") {
      SetThinking(request, type == "enabled");
    } else if (type != "adaptive" && type != "auto") {
      fields.Fail("type", R"(must be "enabled", "disabled" or "adaptive")");
    }
  }
}

void ReadChatSampling(const WireObject& body, ChatRequest& request) {
  SamplingFields& sampling = request.sampling;
  const WireLimits& limits = body.parse().limits();
  ReadSampling(body, sampling);
  ReadControls(body, sampling);
  ReadStops(body, "stop", sampling);
  sampling.max_tokens = body.Int("max_tokens", 1, kTokensMax);
  if (const auto other = body.Int("n_predict", 1, kTokensMax)) sampling.max_tokens = other;
  if (const auto newer = body.Int("max_completion_tokens", 1, kTokensMax)) {
    sampling.max_tokens = newer;
  }
  sampling.n = static_cast<int>(body.Int("n", 1, limits.choices).value_or(1));
  sampling.logprobs = body.Bool("logprobs").value_or(false);
  sampling.top_logprobs =
      static_cast<int>(body.Int("top_logprobs", 0, limits.top_logprobs).value_or(0));
  if (sampling.top_logprobs > 0 && !sampling.logprobs) {
    body.Fail("top_logprobs", "needs \"logprobs\": true");
  }
}

}  // namespace

void ReadConversation(const WireObject& body, ChatRequest& request) {
  request.model = body.String("model").value_or("");
  ReadTemplateKwargs(body, request);
  ReadChatTools(body, request);
  ReadMessages(body, request);
}

void ReadChatBody(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  request.model = body.RequiredString("model");
  request.stream = body.Bool("stream").value_or(false);
  request.return_token_ids = body.Bool("return_token_ids").value_or(false);
  request.tokens_as_ids = body.Bool("return_tokens_as_token_ids").value_or(false);
  request.parallel_tool_calls = body.Bool("parallel_tool_calls").value_or(true);
  if (const WireJson* options = body.Object("stream_options")) {
    const WireObject fields(parse, *options, body.PlaceOf("stream_options"), "stream_options");
    request.include_usage = fields.Bool("include_usage").value_or(false);
  }
  for (const char* hint : {"prompt_cache_key", "session_id"}) AddHint(body, hint, hint, request);
  AddMetadataHints(body, "metadata", request);
  ReadChatSampling(body, request);
  ReadTemplateKwargs(body, request);
  ReadChatReasoning(body, request);
  ReadChatTools(body, request);
  ReadChatToolChoice(body, request);
  if (!parse.failed()) CheckToolChoice(body, request);
  ReadMessages(body, request);
  if (parse.failed()) return;
  ReadAnswerShape(body, request);
  // vLLM wants both words; one of them alone asks for something else.
  const bool more = body.Bool("continue_final_message").value_or(false);
  const bool anew = body.Bool("add_generation_prompt").value_or(!more);
  if (more == anew) {
    return body.Fail("add_generation_prompt",
                     "a message is continued, or a new one begins: it must be the opposite of "
                     "\"continue_final_message\"");
  }
  request.echoes = body.Bool("echo").value_or(false);
  if (request.stream && request.echoes) return body.Fail("echo", "is not streamed");
  if (request.stream && request.sampling.prompt_logprobs) {
    return body.Fail("prompt_logprobs", "is not streamed");
  }
  if (more) TakePrefill(body, request);
}

}  // namespace tidemill
