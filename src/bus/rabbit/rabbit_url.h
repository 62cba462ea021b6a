// Where a RabbitMQ broker is and who we are there, read from a URL. No I/O.
//   amqp://[user[:password]@]host[:port][/vhost][?queues=quorum]
//   amqps://..[?ca=FILE][&cert=FILE&key=FILE]   the same over TLS
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct RabbitAddress {
  std::string host;
  int port = 5672;
  std::string vhost = "/";
  std::string user = "guest";
  std::string password = "guest";
  bool tls = false;
  std::string ca;         // file of CA certificates; empty: the system's
  std::string cert, key;  // of this client, where the broker asks for them
  bool quorum = false;    // topics are replicated quorum queues, for a broker of several nodes

  // "host:port/vhost", without secrets: for messages and logs.
  std::string Name() const;
};

// kInvalid says what was wrong and never repeats the password.
Result<RabbitAddress> ParseRabbitUrl(std::string_view url);

}  // namespace tidemill
