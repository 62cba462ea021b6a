#include "gateway/request_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "gateway/wire_json.h"

namespace tidemill {
namespace {

WireJson ParsedArguments(const std::string& arguments, const WireLimits& limits) {
  if (arguments.find_first_not_of(" \t\r\n") == std::string::npos) return WireJson::object();
  Result<WireJson> parsed = ParseWire(arguments, limits);
  if (!parsed.ok() || !parsed->is_object()) return arguments;
  return std::move(*parsed);
}

bool IsName(const std::string& name, size_t max) {
  if (name.empty() || name.size() > max) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7F; });
}

}  // namespace

void ReadSampling(const WireObject& body, SamplingFields& out) {
  out.temperature = body.Number("temperature", 0, 2);
  out.top_p = body.Number("top_p", 0, 1);
  if (out.top_p == 0.0) body.Fail("top_p", "must be above 0 and at most 1, got 0");
  out.top_k = body.Int("top_k", -1, std::numeric_limits<int32_t>::max());
  if (out.top_k == -1) out.top_k = 0;  // how vLLM's clients say "no bound"
  out.min_p = body.Number("min_p", 0, 1);
  out.seed =
      body.Int("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

void ReadStops(const WireObject& body, std::string_view key, SamplingFields& out) {
  const WireJson* value = body.Find(key);
  if (value == nullptr) return;
  if (value->is_string()) {
    out.stop = {value->get<std::string>()};
  } else {
    out.stop = body.Strings(key, body.parse().limits().stops);
  }
  for (const std::string& stop : out.stop) {
    if (stop.empty()) body.Fail(key, "a stop string must not be empty");
    if (stop.size() > body.parse().limits().stop_bytes) {
      body.Fail(key, fmt::format("a stop string has {} bytes, at most {} are allowed", stop.size(),
                                 body.parse().limits().stop_bytes));
    }
  }
}

void ReadTemplateKwargs(const WireObject& body, ChatRequest& request) {
  const WireJson* kwargs = body.Object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  const WirePlace at = body.PlaceOf("chat_template_kwargs");
  for (const char* key : {"messages", "tools", "add_generation_prompt", "documents"}) {
    if (kwargs->contains(key)) body.parse().Fail({&at, key}, "is given by the gateway itself");
  }
  request.template_kwargs = *kwargs;
}

void SetThinking(ChatRequest& request, bool enabled) {
  if (!request.template_kwargs.contains("enable_thinking")) {
    request.template_kwargs["enable_thinking"] = enabled;
  }
}

void SetEffort(ChatRequest& request, const std::string& effort) {
  if (effort == "none") {
    SetThinking(request, false);
  } else if (!request.template_kwargs.contains("reasoning_effort")) {
    request.template_kwargs["reasoning_effort"] = effort;
  }
}

void AddHint(const WireObject& object, std::string_view key, std::string_view name,
             ChatRequest& request) {
  if (auto value = object.String(key)) request.session_hints.emplace_back(name, std::move(*value));
}

void AddMetadataHints(const WireObject& body, const std::string& field, ChatRequest& request) {
  const WireJson* object = body.Find(field);
  if (object == nullptr || !object->is_object()) return;
  for (const char* key : {"session_id", "thread_id", "user_id", "turn_id"}) {
    if (!object->contains(key) || !(*object)[key].is_string()) continue;
    request.session_hints.emplace_back(field + "." + key, (*object)[key].get<std::string>());
  }
}

void JoinText(std::string& all, std::string_view text, bool first, JoinParts join) {
  if (!first && join == JoinParts::kLines) all += '\n';
  all += text;
}

std::string CheckedType(WireParse& parse, const WireJson& value, const WirePlace& at,
                        std::string_view where, std::string_view absent) {
  std::string type(absent);
  const WirePlace type_at{&at, "type"};
  if (!value.is_object()) {
    parse.Fail(at, fmt::format("must be an object, got {}", ShownWire(value)), "invalid_type");
    return {};
  }
  if (value.contains("type") && !value["type"].is_null()) {
    if (!value["type"].is_string()) {
      parse.Fail(type_at, "must be a string", "invalid_type");
      return {};
    }
    type = value["type"].get<std::string>();
  }
  if (type.empty()) {
    parse.Fail(type_at, "is required", "missing_required_parameter");
    return {};
  }
  return parse.Allow(where, "type=" + type, type_at, value) ? type : std::string();
}

std::string ReadOpenAiContent(const WireObject& message, std::string_view key,
                              std::string_view where, JoinParts join) {
  const WireJson* value = message.Find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) {
    message.Fail(key, fmt::format("must be a string or a list of parts, got {}", ShownWire(*value)),
                 "invalid_type");
    return {};
  }
  std::string all;
  bool first = true;
  WireParse& parse = message.parse();
  message.List(key, parse.limits().parts, [&](const WireJson& part, const WirePlace& at) {
    const std::string type = CheckedType(parse, part, at, where, "");
    if (type.empty()) return;
    const WireObject object(parse, part, at, where);
    const std::string_view field = type == "refusal" ? "refusal" : "text";
    object.Require(field);
    JoinText(all, object.String(field).value_or(""), first, join);
    first = false;
  });
  return all;
}

WireJson CanonicalMessage(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

WireJson CanonicalAssistant(std::string content, std::string reasoning, WireJson calls) {
  WireJson message = CanonicalMessage("assistant", std::move(content));
  if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

WireJson CanonicalCall(const std::string& id, const std::string& name, const std::string& arguments,
                       const WireLimits& limits) {
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", ParsedArguments(arguments, limits)}}}};
}

void NameToolMessages(WireJson& messages) {
  std::unordered_map<std::string, std::string> names;
  for (WireJson& message : messages) {
    if (message.contains("tool_calls")) {
      for (const WireJson& call : message["tool_calls"]) {
        names[call["id"].get<std::string>()] = call["function"]["name"].get<std::string>();
      }
    } else if (message.contains("tool_call_id")) {
      const auto found = names.find(message["tool_call_id"].get<std::string>());
      if (found != names.end()) message["name"] = found->second;
    }
  }
}

WireJson ToolList::Make(const std::string& name, const std::optional<std::string>& description,
                        const WireJson* parameters, const WirePlace& at) {
  const WireLimits& limits = parse_.limits();
  if (!IsName(name, limits.name_bytes)) {
    parse_.Fail({&at, "name"}, fmt::format("must be a name of 1 to {} bytes without spaces, got {}",
                                           limits.name_bytes, ShownWire(name)));
    return nullptr;
  }
  if (!names_.insert(name).second) {
    parse_.Fail({&at, "name"}, fmt::format("there are two tools {}", ShownWire(name)));
    return nullptr;
  }
  if (names_.size() > limits.tools) {
    parse_.Fail(at, fmt::format("more than {} tools", limits.tools), "array_above_max_length");
    return nullptr;
  }
  WireJson function = {{"name", name}};
  if (description.has_value()) function["description"] = *description;
  function["parameters"] = parameters != nullptr
                               ? *parameters
                               : WireJson{{"type", "object"}, {"properties", WireJson::object()}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

void CheckToolChoice(const WireObject& body, const ChatRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  if (choice.kind == ToolChoice::Kind::kRequired && request.tools.empty()) {
    body.Fail("tool_choice", "asks for a tool, but there are no tools");
  }
  if (choice.kind != ToolChoice::Kind::kNamed) return;
  for (const WireJson& tool : request.tools) {
    if (tool["function"]["name"] == choice.name) return;
  }
  body.Fail("tool_choice", fmt::format("there is no tool {}", ShownWire(choice.name)));
}

void KeepTools(ChatRequest& request, const std::set<std::string>& names) {
  WireJson kept = WireJson::array();
  for (WireJson& tool : request.tools) {
    if (names.contains(tool["function"]["name"].get<std::string>()))
      kept.push_back(std::move(tool));
  }
  request.tools = std::move(kept);
}

}  // namespace tidemill
