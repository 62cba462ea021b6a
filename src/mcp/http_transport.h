// A server behind streamable HTTP: every message is a POST, and its answer a message or a stream of
// events. A stream that the server opens by itself (GET) is not asked for.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/http_peer.h"
#include "mcp/mcp_transport.h"

namespace tidemill {

struct McpHttpOptions {
  std::string url{};     // "http://HOST:PORT/mcp", or https
  std::string bearer{};  // empty: none
  std::vector<std::pair<std::string, std::string>> headers{};
  RpcLimits limits = {};
  HttpPeerOptions peer = {.ca_file = {}, .body_max = size_t{16} << 20, .header_max = 32 * 1024};
};

class HttpTransport final : public McpTransport {
 public:
  // kInvalid: the url, or the certificates.
  static Result<std::unique_ptr<HttpTransport>> Make(McpHttpOptions options);
  // Ends the session at the server, without waiting for long.
  ~HttpTransport() override;

  // Waits for the whole answer; what is in it is received afterwards. kNotFound: the server forgot
  // the session.
  Status Send(const RpcMessage& message, Duration timeout) override;
  Result<RpcMessage> Receive(Duration timeout) override;
  void Speak(const std::string& version) override { version_ = version; }
  void Interrupt() override { peer_->Interrupt(); }

 private:
  HttpTransport(McpHttpOptions options, std::string target, std::unique_ptr<HttpPeer> peer);
  HttpAsk AskOf(std::string method, std::string body) const;
  Status Take(const HttpAnswer& answer);

  const McpHttpOptions options_;
  const std::string target_;
  const std::unique_ptr<HttpPeer> peer_;
  std::string session_;  // as the server named it; empty: it has none
  std::string version_;
  std::deque<RpcMessage> received_;
};

}  // namespace tidemill
