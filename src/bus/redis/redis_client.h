// One command after the other to a Redis server, each waited for: for heartbeats, `tidemill status`
// and other things that are not loops. A connection that was lost is made again by the next
// command.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bus/redis/redis_connection.h"
#include "bus/redis/redis_library.h"
#include "bus/redis/redis_url.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// Belongs to one thread.
class RedisClient {
 public:
  // Failures are RedisConnection::Connect's, or the URL's.
  static Result<RedisClient> Connect(std::string_view url,
                                     Duration timeout = std::chrono::seconds(5));

  // An error reply is a Status too: kInvalid where this user may not do it, else kUnavailable.
  Result<ReplyPtr> Do(std::span<const std::string_view> args);
  Result<ReplyPtr> Do(std::initializer_list<std::string_view> args) {
    return Do(std::span(args.begin(), args.size()));
  }
  // A function of our library, with one key; loads the library where it is missing.
  Result<ReplyPtr> Call(RedisFunction function, std::string_view key,
                        std::span<const std::string_view> args);
  Result<ReplyPtr> Call(RedisFunction function, std::string_view key,
                        std::initializer_list<std::string_view> args) {
    return Call(function, key, std::span(args.begin(), args.size()));
  }

  const RedisAddress& address() const { return address_; }

 private:
  RedisClient(RedisAddress address, Duration timeout)
      : address_(std::move(address)), timeout_(timeout) {}

  RedisAddress address_;
  Duration timeout_;
  std::unique_ptr<RedisConnection> connection_;
};

}  // namespace tidemill
