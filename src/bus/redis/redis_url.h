// Where a Redis server is and who we are there, read from a URL. No I/O.
//   redis://[user[:password]@]host[:port][/db]
//   rediss://..[?ca=FILE][&cert=FILE&key=FILE]   the same over TLS
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct RedisAddress {
  std::string host;
  int port = 6379;
  int db = 0;
  std::string user;      // empty: the server's default user
  std::string password;  // empty and no user: no AUTH
  bool tls = false;
  std::string ca;         // file of CA certificates; empty: the system's
  std::string cert, key;  // of this client, where the server asks for them

  bool authenticates() const { return !user.empty() || !password.empty(); }
  // "host:port/db", without secrets: for messages and logs.
  std::string Name() const;
};

// User and password may be percent-encoded; a host with colons stands in brackets. kInvalid says
// what was wrong and never repeats the password.
Result<RedisAddress> ParseRedisUrl(std::string_view url);

}  // namespace tidemill
