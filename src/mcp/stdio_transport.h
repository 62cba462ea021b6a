// A server that is a program: a message a line on its standard input and output. Whoever starts the
// program, in a box or not, gives our ends of its pipes.
//
//   our end of its input <- Send          our end of its output -> Receive
#pragma once

#include <memory>
#include <string>

#include "core/fd.h"
#include "mcp/mcp_transport.h"

namespace tidemill {

class StdioTransport final : public McpTransport {
 public:
  // `to` is written, `from` is read; they are made non-blocking. kUnavailable: the system gives no
  // descriptor.
  static Result<std::unique_ptr<StdioTransport>> Make(Fd to, Fd from, const RpcLimits& limits = {});

  Status Send(const RpcMessage& message, Duration timeout) override;
  // Lines that are empty do not count.
  Result<RpcMessage> Receive(Duration timeout) override;
  void Speak(const std::string&) override {}
  void Interrupt() override;

 private:
  StdioTransport(Fd to, Fd from, Fd interrupted, const RpcLimits& limits);
  // Until the descriptor is ready for `events`, or an end of waiting.
  Status WaitFor(int fd, short events, Time until) const;

  Fd to_, from_;
  Fd interrupted_;  // an eventfd
  const RpcLimits limits_;
  std::string unread_;  // of the server's output; begins with a line
};

}  // namespace tidemill
