// Where a server is and who we are there, read from a URL. No I/O. What the parts mean is the
// server's own: redis_url.h, rabbit_url.h.
//   SCHEME://[user[:password]@]host[:port][/path][?name=value&..]
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct ServerUrl {
  bool tls = false;
  std::string user, password;  // decoded
  bool signs_in = false;       // there was a user or a password
  std::string host;
  int port = 0;                                // 0: none was given
  std::string path;                            // behind the '/', as it stands
  std::map<std::string, std::string> options;  // decoded
};

// How the URLs of a kind of server look, also for messages.
struct ServerUrlForm {
  std::string_view server;  // "redis"
  std::string_view scheme;  // "redis://"
  std::string_view tls_scheme;
  std::string_view form;  // "expected redis://.."

  // kInvalid, with the form behind it.
  Status Wrong(std::string_view what) const;
};

// User, password and options may be percent-encoded; a host with colons stands in brackets.
// kInvalid says what was wrong and never repeats the password.
Result<ServerUrl> ParseServerUrl(std::string_view url, const ServerUrlForm& form);

// "%2F" -> "/". kInvalid, naming `what`.
Result<std::string> PercentDecode(std::string_view text, const ServerUrlForm& form,
                                  std::string_view what);

// The text there is not shown in messages: it may be a password whose host was left out.
Result<int> ParseUrlNumber(std::string_view text, int low, int high, const ServerUrlForm& form,
                           std::string_view what);

// "host:port", an IPv6 host in brackets.
std::string HostAndPort(std::string_view host, int port);

}  // namespace tidemill
