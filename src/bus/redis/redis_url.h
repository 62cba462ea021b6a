// Where a Redis server is and who we are there, read from a URL. No I/O.
//   redis://[user[:password]@]host[:port][/db]
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

  bool authenticates() const { return !user.empty() || !password.empty(); }
  // "host:port/db", without secrets: for messages and logs.
  std::string Name() const;
};

// User and password may be percent-encoded; a host with colons stands in brackets. kInvalid says
// what was wrong and never repeats the password. rediss:// is kInvalid and names the way to
// encrypt.
Result<RedisAddress> ParseRedisUrl(std::string_view url);

}  // namespace tidemill
