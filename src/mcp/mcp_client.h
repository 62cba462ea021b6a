// A client of the Model Context Protocol, over either transport: what an MCP server's tools are,
// and calls of them.
//
//   StdioTransport::Make(pipes)  | HttpTransport::Make({.url = ..})
//        -> McpClient::Connect -> Tools -> Call .. Call
//
// It waits for answers, on the thread that calls; Interrupt ends that from another. It offers the
// server nothing (no roots, no sampling, no elicitation): what a server asks for is refused, but a
// ping.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mcp/mcp_messages.h"
#include "mcp/mcp_transport.h"

namespace tidemill {

struct McpClientOptions {
  McpName name = {};                            // ours
  Duration timeout = std::chrono::seconds(30);  // of everything but calls
  size_t tools_max = 1024;                      // of a server
  size_t text_max = size_t{1} << 20;            // of a result
};

class McpClient {
 public:
  // Greets the server. kInvalid: it speaks no version of ours. Else as the transport.
  static Result<std::unique_ptr<McpClient>> Connect(std::unique_ptr<McpTransport> transport,
                                                    McpClientOptions options);

  const McpName& server() const { return server_; }
  // kInvalid: a list that is none. kFull: more tools than the options allow.
  Result<std::vector<McpTool>> Tools();
  // kInvalid: the server refused what is passed to the tool: the caller's doing. kTimeout: no
  // answer in time, and the server was told that none is waited for. kUnavailable: the server
  // failed, is gone, or sent what is no answer. `progress` may be empty.
  Result<McpCallResult> Call(const std::string& tool, RpcJson arguments, Duration timeout,
                             const std::function<void(const RpcJson&)>& progress = {});
  // From any thread: what is under way, and everything later, fails with kUnavailable.
  void Interrupt() { transport_->Interrupt(); }

 private:
  McpClient(std::unique_ptr<McpTransport> transport, McpClientOptions options);
  // The answer to a request, after whatever else the server has to say.
  Result<RpcMessage> AskFor(std::string_view method, RpcJson params, int64_t id, Duration timeout,
                            const std::function<void(const RpcJson&)>& progress);
  // The result of one that is no call.
  Result<RpcJson> Ask(std::string_view method, RpcJson params);
  // Not the answer that is waited for.
  Status Heed(const RpcMessage& message, const std::function<void(const RpcJson&)>& progress);

  const std::unique_ptr<McpTransport> transport_;
  const McpClientOptions options_;
  McpName server_;
  int64_t next_id_ = 1;
};

}  // namespace tidemill
