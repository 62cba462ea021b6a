#include "rollout/job_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using ArgumentsJson = nlohmann::ordered_json;

constexpr const char* kBackgroundKey = "background";
constexpr double kWaitSecondsMax = 1e6;

Result<ArgumentsJson> ReadJobArguments(const std::string& arguments_json) {
  ArgumentsJson json = ArgumentsJson::parse(arguments_json, nullptr, false);
  if (!json.is_object()) return Invalid("the arguments must be a JSON object");
  return json;
}

Result<std::vector<std::string>> ReadHandles(const ArgumentsJson& json) {
  std::vector<std::string> handles;
  const auto given = json.find("handles");
  if (given == json.end()) return handles;
  if (!given->is_array()) return Invalid("\"handles\" must be a list like [\"b1\"]");
  for (const ArgumentsJson& handle : *given) {
    if (!handle.is_string()) return Invalid("\"handles\" must be a list like [\"b1\"]");
    handles.push_back(handle.get<std::string>());
  }
  return handles;
}

}  // namespace

bool IsJobTool(std::string_view tool) {
  return tool == kWaitTool || tool == kCancelTool || tool == kJobsTool;
}

const std::vector<ToolDescription>& JobTools() {
  static const std::vector<ToolDescription> kDescriptions = {
      {std::string(kWaitTool),
       "Wait for calls that run in the background; their results follow. Without handles: for "
       "whatever runs.",
       R"({"type":"object","properties":{"handles":{"type":"array","items":{"type":"string"}},"for":{"type":"string","enum":["any","all"]},"timeout_s":{"type":"number"}}})"},
      {std::string(kCancelTool), "Cancel calls that run in the background.",
       R"({"type":"object","properties":{"handles":{"type":"array","items":{"type":"string"}}},"required":["handles"]})"},
      {std::string(kJobsTool), "List the calls that run in the background.",
       R"({"type":"object","properties":{}})"},
  };
  return kDescriptions;
}

Result<ToolDescription> WithBackground(ToolDescription tool, BackgroundUse use) {
  tool.background = use;
  if (use == BackgroundUse::kNever) return tool;
  if (use == BackgroundUse::kAlways) {
    tool.description += " Runs in the background: a handle comes at once, the result later.";
    return tool;
  }
  ArgumentsJson parameters = ArgumentsJson::parse(tool.parameters_json, nullptr, false);
  if (!parameters.is_object()) {
    return Invalid("the tool \"" + tool.name + "\": its parameters are no JSON object");
  }
  ArgumentsJson& properties = parameters["properties"];
  if (properties.contains(kBackgroundKey)) {
    return Invalid("the tool \"" + tool.name +
                   "\": an argument \"background\" of its own, and it may run in the background");
  }
  properties[kBackgroundKey] = {{"type", "boolean"},
                                {"description", "true: go on meanwhile; the result comes later"}};
  tool.parameters_json = parameters.dump();
  return tool;
}

Result<WaitOrder> ReadWait(const std::string& arguments_json) {
  TM_ASSIGN_OR_RETURN(const ArgumentsJson json, ReadJobArguments(arguments_json));
  WaitOrder order;
  TM_ASSIGN_OR_RETURN(order.handles, ReadHandles(json));
  if (const auto wanted = json.find("for"); wanted != json.end()) {
    if (*wanted != "any" && *wanted != "all") return Invalid("\"for\" must be \"any\" or \"all\"");
    order.any = *wanted == "any";
  }
  if (const auto limit = json.find("timeout_s"); limit != json.end()) {
    if (!limit->is_number() || !(limit->get<double>() >= 0)) {
      return Invalid("\"timeout_s\" must be a number, 0 or more");
    }
    const double seconds = std::min(limit->get<double>(), kWaitSecondsMax);
    order.limit = milliseconds(static_cast<int64_t>(seconds * 1000));
  }
  return order;
}

Result<std::vector<std::string>> ReadCancel(const std::string& arguments_json) {
  TM_ASSIGN_OR_RETURN(const ArgumentsJson json, ReadJobArguments(arguments_json));
  TM_ASSIGN_OR_RETURN(std::vector<std::string> handles, ReadHandles(json));
  if (handles.empty()) return Invalid("\"handles\" is missing: which calls, like [\"b1\"]");
  return handles;
}

bool TakeBackgroundWish(std::string& arguments_json) {
  if (arguments_json.find(kBackgroundKey) == std::string::npos) return false;
  ArgumentsJson json = ArgumentsJson::parse(arguments_json, nullptr, false);
  if (!json.is_object()) return false;
  const auto wish = json.find(kBackgroundKey);
  if (wish == json.end()) return false;
  // Formats without types write a boolean as a word.
  const bool yes = *wish == true || *wish == "true" || *wish == "True";
  const bool no = *wish == false || *wish == "false" || *wish == "False";
  if (!yes && !no) return false;
  json.erase(kBackgroundKey);
  arguments_json = json.dump(-1, ' ', false, ArgumentsJson::error_handler_t::replace);
  return yes;
}

}  // namespace tidemill
