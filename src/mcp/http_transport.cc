#include "mcp/http_transport.h"

#include <algorithm>

#include "core/text.h"
#include "mcp/event_lines.h"

namespace tidemill {
namespace {

constexpr std::chrono::milliseconds kFarewell{1000};
constexpr size_t kSaidMax = 300;  // of an answer, in an error

std::chrono::milliseconds InMilliseconds(Duration timeout) {
  const auto most = std::chrono::hours(24);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::clamp<Duration>(timeout, milliseconds(1), most));
}

}  // namespace

Result<std::unique_ptr<HttpTransport>> HttpTransport::Make(McpHttpOptions options) {
  TM_ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(options.url));
  std::string target = url.path;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<HttpPeer> peer, HttpPeer::Make(std::move(url), options.peer));
  return std::unique_ptr<HttpTransport>(
      new HttpTransport(std::move(options), std::move(target), std::move(peer)));
}

HttpTransport::HttpTransport(McpHttpOptions options, std::string target,
                             std::unique_ptr<HttpPeer> peer)
    : options_(std::move(options)), target_(std::move(target)), peer_(std::move(peer)) {}

HttpTransport::~HttpTransport() {
  if (!session_.empty()) (void)peer_->Ask(AskOf("DELETE", ""), kFarewell);
}

HttpAsk HttpTransport::AskOf(std::string method, std::string body) const {
  HttpAsk ask;
  ask.method = std::move(method);
  ask.target = target_;
  ask.headers = options_.headers;
  ask.headers.emplace_back("Content-Type", "application/json");
  ask.headers.emplace_back("Accept", "application/json, text/event-stream");
  if (!options_.bearer.empty()) {
    ask.headers.emplace_back("Authorization", "Bearer " + options_.bearer);
  }
  if (!session_.empty()) ask.headers.emplace_back("Mcp-Session-Id", session_);
  if (!version_.empty()) ask.headers.emplace_back("MCP-Protocol-Version", version_);
  ask.body = std::move(body);
  return ask;
}

Status HttpTransport::Send(const RpcMessage& message, Duration timeout) {
  const auto asked = std::chrono::steady_clock::now();
  Result<HttpAnswer> answer = peer_->Ask(AskOf("POST", DumpRpc(message)), InMilliseconds(timeout));
  if (!answer.ok()) {
    const bool late = std::chrono::steady_clock::now() - asked >= timeout;
    return late ? Timeout(answer.status().message()) : answer.status();
  }
  return Take(*answer);
}

Status HttpTransport::Take(const HttpAnswer& answer) {
  const std::string said = "the server answered with status " + std::to_string(answer.status) +
                           ": " + Beginning(answer.body, kSaidMax);
  // Of a request that is no message of the protocol, a server may say so in one.
  if (answer.status == 404 && !session_.empty()) return NotFound(said);
  if (answer.status < 200 || answer.status >= 300) return Unavailable(said);
  if (const std::string session = answer.Header("mcp-session-id"); !session.empty()) {
    session_ = session;
  }
  if (answer.body.empty()) return Ok();
  std::vector<std::string> texts = {answer.body};
  if (answer.Header("content-type").starts_with("text/event-stream")) {
    texts = DataOfEvents(answer.body);
  }
  for (const std::string& text : texts) {
    RpcParsed parsed = ParseRpc(text, options_.limits);
    if (!parsed.status.ok()) return parsed.status.WithContext("the server's answer");
    received_.push_back(std::move(parsed.message));
  }
  return Ok();
}

Result<RpcMessage> HttpTransport::Receive(Duration) {
  if (received_.empty()) return Unavailable("the server's answer ended without a result");
  RpcMessage message = std::move(received_.front());
  received_.pop_front();
  return message;
}

}  // namespace tidemill
