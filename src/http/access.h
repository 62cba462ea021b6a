// Who may ask: bearer tokens, and the names under which a server on loopback answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "http/http_message.h"

namespace tidemill {

inline constexpr size_t kTokenBytesMin = 16;

// The tokens a server accepts. Immutable and thread-safe.
class Tokens {
 public:
  // kInvalid: a token that is too short, or has characters a header cannot carry.
  static Result<Tokens> Make(std::vector<std::string> tokens);
  Tokens() = default;

  bool empty() const { return tokens_.empty(); }
  // Whether the value of an Authorization header ("Bearer x") carries one of them. Takes the same
  // time wherever the first difference is, and whichever token it is.
  bool Accept(std::string_view authorization) const;

 private:
  std::vector<std::string> tokens_;
};

// One token a line; empty lines and lines that begin with '#' do not count. kInvalid names file and
// line.
Result<std::vector<std::string>> ReadTokenFile(const std::string& path);

// 127.0.0.0/8, ::1 or "localhost".
bool IsLoopback(std::string_view host);

// Whether a Host header names loopback, with or without a port. A page elsewhere that makes its own
// name point here (DNS rebinding) is refused by this.
bool HostIsLoopback(std::string_view host_header);

// Whether a browser sent this for a page that is not of this machine: a page elsewhere can post to
// loopback without asking, but then not with credentials.
bool FromAForeignPage(const HttpRequest& request);

}  // namespace tidemill
