#include "mcp/mcp_messages.h"

#include <algorithm>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::string_view kMcpVersions[] = {kMcpVersion, "2025-03-26", "2024-11-05"};
constexpr size_t kMcpNameMax = 128;

std::string TextField(const RpcJson& json, const char* name) {
  const auto field = json.find(name);
  return field != json.end() && field->is_string() ? field->get<std::string>() : "";
}

// What a model sees of a part that is no text.
std::string PartText(const RpcJson& part) {
  const std::string type = TextField(part, "type");
  if (type == "text") return TextField(part, "text");
  if (type == "resource") {
    const auto resource = part.find("resource");
    if (resource == part.end() || !resource->is_object()) return "[resource]";
    const std::string text = TextField(*resource, "text");
    return text.empty() ? "[resource " + TextField(*resource, "uri") + "]" : text;
  }
  if (type == "resource_link") return "[resource " + TextField(part, "uri") + "]";
  return "[" + type + " " + TextField(part, "mimeType") + "]";
}

Result<McpTool> ReadMcpTool(const RpcJson& json) {
  if (!json.is_object()) return Invalid("a tool must be an object");
  McpTool tool;
  tool.name = TextField(json, "name");
  if (tool.name.empty() || tool.name.size() > kMcpNameMax) {
    return Invalid("a tool's \"name\" must have 1 to 128 characters");
  }
  tool.description = TextField(json, "description");
  const auto schema = json.find("inputSchema");
  if (schema == json.end() || !schema->is_object()) {
    return Invalid("the tool \"" + tool.name + "\": \"inputSchema\" must be an object");
  }
  tool.parameters_json = schema->dump(-1, ' ', false, RpcJson::error_handler_t::replace);
  return tool;
}

}  // namespace

bool SpeaksMcpVersion(std::string_view version) {
  return std::find(std::begin(kMcpVersions), std::end(kMcpVersions), version) !=
         std::end(kMcpVersions);
}

RpcMessage McpRequest(int64_t id, std::string_view method, RpcJson params) {
  RpcMessage message{.kind = RpcMessage::Kind::kRequest, .id = id};
  message.method = method;
  message.params = std::move(params);
  return message;
}

RpcMessage McpNote(std::string_view method, RpcJson params) {
  RpcMessage message{.kind = RpcMessage::Kind::kNotification};
  message.method = method;
  message.params = std::move(params);
  return message;
}

RpcJson McpInitializeParams(const McpName& client) {
  return {{"protocolVersion", std::string(kMcpVersion)},
          {"capabilities", RpcJson::object()},
          {"clientInfo", {{"name", client.name}, {"version", client.version}}}};
}

RpcJson McpCallParams(const std::string& tool, RpcJson arguments, int64_t progress_token) {
  RpcJson params = {{"name", tool}, {"arguments", std::move(arguments)}};
  if (progress_token != 0) params["_meta"] = {{"progressToken", progress_token}};
  return params;
}

Result<McpName> ReadMcpInitialized(const RpcJson& result) {
  if (!result.is_object()) return Invalid("the answer to initialize must be an object");
  const std::string version = TextField(result, "protocolVersion");
  if (!SpeaksMcpVersion(version)) {
    return Invalid("the server speaks version \"" + Beginning(version, 40) +
                   "\" of the protocol; " + std::string(kMcpVersion) +
                   " and the two before it are spoken here");
  }
  const auto info = result.find("serverInfo");
  if (info == result.end() || !info->is_object()) return McpName{"", ""};
  return McpName{TextField(*info, "name"), TextField(*info, "version")};
}

Result<McpToolPage> ReadMcpTools(const RpcJson& result) {
  const auto list = result.is_object() ? result.find("tools") : result.end();
  if (!result.is_object() || list == result.end() || !list->is_array()) {
    return Invalid("the answer to tools/list must have a list \"tools\"");
  }
  McpToolPage page;
  for (const RpcJson& one : *list) {
    TM_ASSIGN_OR_RETURN(McpTool tool, ReadMcpTool(one));
    page.tools.push_back(std::move(tool));
  }
  page.cursor = TextField(result, "nextCursor");
  return page;
}

Result<McpCallResult> ReadMcpCallResult(const RpcJson& result, size_t text_max) {
  if (!result.is_object()) return Invalid("the result of a tool must be an object");
  McpCallResult read;
  read.failed = result.value("isError", RpcJson(false)) == true;
  if (const auto structured = result.find("structuredContent"); structured != result.end()) {
    read.structured = *structured;
  }
  const auto content = result.find("content");
  if (content == result.end() || !content->is_array()) {
    if (read.structured.is_null()) {
      return Invalid("the result of a tool must have a list \"content\"");
    }
    read.text = read.structured.dump(-1, ' ', false, RpcJson::error_handler_t::replace);
  } else {
    for (const RpcJson& part : *content) {
      if (!part.is_object()) return Invalid("\"content\" must be a list of objects");
      if (!read.text.empty()) read.text += "\n";
      read.text += PartText(part);
      if (read.text.size() > text_max) break;
    }
  }
  if (read.text.size() > text_max) read.text = ToUtf8(read.text.substr(0, text_max));
  return read;
}

}  // namespace tidemill
