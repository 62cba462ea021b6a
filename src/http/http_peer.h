// An HTTP/1.1 client for one server: keeps its connection, verifies TLS, and holds every answer to
// a deadline and a size.
//
//   HttpPeer peer(url, options);  peer.Ask({.body = json}, 30s) -> status and body
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct HttpUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // begins with '/'; no '/' at its end unless that is all

  // The value of the header field Host.
  std::string Authority() const;
};

// "http://HOST[:PORT][/PATH]" or https. kInvalid says what is wrong; user names, queries and
// fragments are.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

struct HttpPeerOptions {
  std::string ca_file = {};       // PEM; empty: the system's certificates
  size_t body_max = 1 << 20;      // of an answer
  size_t header_max = 32 * 1024;  // of an answer
};

struct HttpAsk {
  std::string method = "POST";
  std::string target;  // the path
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::chrono::seconds retry_after{0};  // what a header of this name says; 0: nothing
  std::vector<std::pair<std::string, std::string>> headers{};  // names in lower case

  // The value of a header by its name in lower case; empty: it is not there.
  std::string Header(std::string_view name) const;
};

// Belongs to one thread; only Interrupt may be called from another.
class HttpPeer {
 public:
  // kInvalid: the file of certificates cannot be read.
  static Result<std::unique_ptr<HttpPeer>> Make(HttpUrl url, HttpPeerOptions options);
  ~HttpPeer();

  // Asks and waits. kUnavailable: no connection, no answer within `timeout`, or one that is too
  // large or no HTTP. A connection that the server closed since the last answer is opened again,
  // once. The name of the host is looked up within the system's own limits.
  Result<HttpAnswer> Ask(const HttpAsk& ask, std::chrono::milliseconds timeout);

  // Ends the Ask that is under way, and every later one, with kUnavailable.
  void Interrupt();

  uint64_t connections() const;  // opened so far

 private:
  struct Core;
  explicit HttpPeer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace tidemill
