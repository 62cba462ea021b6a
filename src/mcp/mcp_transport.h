// How an McpClient reaches its server: messages out, messages in. Standard input and output of a
// program (stdio_transport.h), or streamable HTTP (http_transport.h).
#pragma once

#include "core/clock.h"
#include "core/status.h"
#include "mcp/json_rpc.h"

namespace tidemill {

// Belongs to one thread at a time; Interrupt may come from any.
class McpTransport {
 public:
  virtual ~McpTransport() = default;
  // kUnavailable: the server is gone. kTimeout: it did not take the message.
  virtual Status Send(const RpcMessage& message, Duration timeout) = 0;
  // The server's next message. kUnavailable: it is gone, or no message can come any more. kTimeout:
  // none came. kInvalid: it sent something else.
  virtual Result<RpcMessage> Receive(Duration timeout) = 0;
  // The server chose this version of the protocol.
  virtual void Speak(const std::string& version) = 0;
  // What is under way, and everything later, fails with kUnavailable.
  virtual void Interrupt() = 0;
};

}  // namespace tidemill
