// What the Model Context Protocol says in JSON-RPC's messages, for its clients: requests are made,
// answers are read. No I/O, so that whoever carries messages in another way than McpClient uses it
// too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "mcp/json_rpc.h"

namespace tidemill {

// The newest version of the protocol that is spoken here, and all of them.
inline constexpr std::string_view kMcpVersion = "2025-06-18";
bool SpeaksMcpVersion(std::string_view version);

// Methods by both sides.
inline constexpr std::string_view kMcpInitialize = "initialize",
                                  kMcpInitialized = "notifications/initialized", kMcpPing = "ping",
                                  kMcpListTools = "tools/list", kMcpCallTool = "tools/call",
                                  kMcpCancelled = "notifications/cancelled",
                                  kMcpProgress = "notifications/progress";

struct McpName {
  std::string name = "tidemill";
  std::string version = "0";
};

// A tool of a server.
struct McpTool {
  std::string name;
  std::string description;
  std::string parameters_json;  // a JSON schema, an object
};

struct McpCallResult {
  std::string text;              // its parts, those that are no text named in brackets
  bool failed = false;           // the tool's own failure, which the model sees
  RpcJson structured = nullptr;  // null: none
};

RpcMessage McpRequest(int64_t id, std::string_view method, RpcJson params);
RpcMessage McpNote(std::string_view method, RpcJson params);
RpcJson McpInitializeParams(const McpName& client);
// Of a call of a tool; `progress_token` 0: no progress is wanted.
RpcJson McpCallParams(const std::string& tool, RpcJson arguments, int64_t progress_token);

// The server's name, from its answer to initialize. kInvalid: no such answer, or a version of the
// protocol that is not spoken here.
Result<McpName> ReadMcpInitialized(const RpcJson& result);

struct McpToolPage {
  std::vector<McpTool> tools;
  std::string cursor;  // of the next page; empty: there is none
};
// kInvalid names the tool and what is wrong with it.
Result<McpToolPage> ReadMcpTools(const RpcJson& result);
// At most `text_max` bytes of text, the rest is cut. kInvalid: no such result.
Result<McpCallResult> ReadMcpCallResult(const RpcJson& result, size_t text_max);

}  // namespace tidemill
