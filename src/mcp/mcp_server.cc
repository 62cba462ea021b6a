#include "mcp/mcp_server.h"

#include "core/text.h"

namespace tidemill {
namespace {

HttpResponse Refusal(int status, const std::string& why) {
  return McpResponse(RpcFailure(nullptr, kRpcInvalidRequest, why), status);
}

// A client that says nothing of what it takes takes everything.
bool Takes(const HttpRequest& request, std::string_view type) {
  const std::string_view accept = request.Header("accept");
  return accept.empty() || accept.find(type) != std::string_view::npos ||
         accept.find("*/*") != std::string_view::npos;
}

std::string Dumped(const RpcJson& json) {
  return json.dump(-1, ' ', false, RpcJson::error_handler_t::replace);
}

}  // namespace

McpPost ReadMcpPost(const HttpRequest& request, const RpcLimits& limits) {
  McpPost post;
  post.session = request.Header(kMcpSessionHeader);
  const std::string version(request.Header("mcp-protocol-version"));
  if (request.method != "POST" && request.method != "DELETE") {
    post.refusal = Refusal(405, "POST a message, or DELETE a session; no stream is offered to GET");
    post.refusal->headers.emplace_back("Allow", "POST, DELETE");
  } else if (!version.empty() && !SpeaksMcpVersion(version)) {
    post.refusal = Refusal(400, "version \"" + Beginning(version, 40) +
                                    "\" of the protocol is not spoken here; " +
                                    std::string(kMcpVersion) + " is");
  } else if (request.method == "DELETE") {
    post.ends_session = true;
    if (post.session.empty()) post.refusal = Refusal(400, "the header Mcp-Session-Id is missing");
  } else if (!Takes(request, "application/json") && !Takes(request, "text/event-stream")) {
    post.refusal = Refusal(406, "answers are application/json or text/event-stream");
  } else {
    RpcParsed parsed = ParseRpc(request.body, limits);
    if (!parsed.status.ok()) {
      post.refusal =
          McpResponse(RpcFailure(parsed.message.id, parsed.code, parsed.status.message()), 400);
    }
    post.message = std::move(parsed.message);
    post.streams = Takes(request, "text/event-stream");
  }
  return post;
}

HttpResponse McpResponse(const RpcMessage& message, int status) {
  HttpResponse response;
  response.status = status;
  response.body = DumpRpc(message);
  return response;
}

RpcJson McpServerGreeting(const RpcJson& params, const McpName& server,
                          const std::string& instructions) {
  const auto wanted = params.find("protocolVersion");
  std::string version(kMcpVersion);
  if (wanted != params.end() && wanted->is_string() &&
      SpeaksMcpVersion(wanted->get<std::string>())) {
    version = wanted->get<std::string>();
  }
  return {{"protocolVersion", version},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", server.name}, {"version", server.version}}},
          {"instructions", instructions}};
}

RpcJson McpToolList(const std::vector<McpTool>& tools) {
  RpcJson list = RpcJson::array();
  for (const McpTool& tool : tools) {
    RpcJson schema = RpcJson::parse(tool.parameters_json, nullptr, false);
    if (!schema.is_object()) schema = {{"type", "object"}};
    list.push_back({{"name", tool.name},
                    {"description", tool.description},
                    {"inputSchema", std::move(schema)}});
  }
  return {{"tools", std::move(list)}};
}

Result<McpCall> ReadMcpCall(const RpcJson& params) {
  McpCall call;
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) return Invalid("\"name\" must be a string");
  call.tool = name->get<std::string>();
  const auto arguments = params.find("arguments");
  if (arguments != params.end() && !arguments->is_object() && !arguments->is_null()) {
    return Invalid("\"arguments\" must be an object");
  }
  const bool some = arguments != params.end() && arguments->is_object();
  call.arguments_json = some ? Dumped(*arguments) : "{}";
  const auto meta = params.find("_meta");
  if (meta != params.end() && meta->is_object() && meta->contains("progressToken")) {
    const RpcJson& token = (*meta)["progressToken"];
    if (!token.is_string() && !token.is_number_integer()) {
      return Invalid("\"progressToken\" must be a string or a whole number");
    }
    call.progress_token = token;
  }
  return call;
}

RpcJson McpTexts(const std::vector<std::string>& texts, bool failed) {
  RpcJson content = RpcJson::array();
  for (const std::string& text : texts) content.push_back({{"type", "text"}, {"text", text}});
  return {{"content", std::move(content)}, {"isError", failed}};
}

}  // namespace tidemill
