// TLS over a connection to Redis: bytes in, bytes out, no I/O of its own. The server's certificate
// is checked against the CA's and against the host's name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bus/redis/redis_url.h"
#include "core/status.h"

namespace tidemill {

// Belongs to one thread.
class RedisTls {
 public:
  // kInvalid: the address names a file that cannot be used.
  static Result<std::unique_ptr<RedisTls>> Make(const RedisAddress& address);
  ~RedisTls();
  RedisTls(const RedisTls&) = delete;

  // Goes on with the handshake; what is to be sent is appended to `wire`. True: it is done.
  // kInvalid: the server is not who it should be. kUnavailable: it does not speak TLS, or not ours.
  Result<bool> Shake(std::string& wire);
  // Bytes from the server.
  Status Feed(std::string_view wire);
  // The explanation, appended to `plain`. kUnavailable: the server closed, or sent what it must
  // not.
  Status Open(std::string& plain);
  // Encrypts; the outcome is appended to `wire`.
  Status Seal(std::string_view plain, std::string& wire);

 private:
  struct Session;
  explicit RedisTls(std::unique_ptr<Session> session);
  void Drain(std::string& wire);

  std::unique_ptr<Session> session_;
};

}  // namespace tidemill
