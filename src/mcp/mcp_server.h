// The server's side of the Model Context Protocol behind streamable HTTP: what a request over HTTP
// is, and what the server's answers say. No I/O and no state.
//
//   HttpRequest -> ReadMcpPost -> a message, or what refuses it
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/http_message.h"
#include "mcp/mcp_messages.h"

namespace tidemill {

inline constexpr const char* kMcpSessionHeader = "mcp-session-id";

// What came by HTTP. Exactly one of: a refusal, the session's end, a message.
struct McpPost {
  std::optional<HttpResponse> refusal{};
  bool ends_session = false;
  RpcMessage message{};
  std::string session{};  // as the client named it; empty: it did not
  bool streams = false;   // the client takes events, too
};
McpPost ReadMcpPost(const HttpRequest& request, const RpcLimits& limits = {});

// An HTTP answer with this message.
HttpResponse McpResponse(const RpcMessage& message, int status = 200);

// The answer to initialize, in the client's version of the protocol where it is spoken here.
RpcJson McpServerGreeting(const RpcJson& params, const McpName& server,
                          const std::string& instructions);
// Parameters that are no JSON object are shown as one without properties.
RpcJson McpToolList(const std::vector<McpTool>& tools);

// A call as its parameters say.
struct McpCall {
  std::string tool;
  std::string arguments_json;
  RpcJson progress_token = nullptr;  // a string or a whole number; null: none is wanted
};
Result<McpCall> ReadMcpCall(const RpcJson& params);

// The result of a call: a part for each text.
RpcJson McpTexts(const std::vector<std::string>& texts, bool failed);

}  // namespace tidemill
