// A connection to a Redis server that never waits: commands are queued, replies come in order to
// whoever sent the command. hiredis connects and parses; reading and writing are ours, in large
// pieces.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bus/redis/redis_tls.h"
#include "bus/redis/redis_url.h"
#include "core/clock.h"
#include "core/status.h"

struct redisContext;
struct redisReply;

namespace tidemill {

struct ReplyFree {
  void operator()(redisReply* reply) const;
};
using ReplyPtr = std::unique_ptr<redisReply, ReplyFree>;

// A reply's text, be it a string, a status or an error; empty for anything else.
std::string_view ReplyText(const redisReply& reply);
bool IsReplyError(const redisReply& reply);

// Belongs to one thread.
class RedisConnection {
 public:
  using OnReply = std::function<void(ReplyPtr)>;

  // Connects, authenticates and selects the database; waits up to `timeout` for each answer.
  // kUnavailable: nobody answered, or the server takes no commands (LOADING, MASTERDOWN, ..).
  // kInvalid: it refused user, password or database, or its certificate is not right.
  static Result<std::unique_ptr<RedisConnection>> Connect(const RedisAddress& address,
                                                          Duration timeout);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;

  // Queues a command. `on_reply` is called inside Read(), or never if the connection fails first.
  void Send(std::span<const std::string_view> args, OnReply on_reply);
  void Send(std::initializer_list<std::string_view> args, OnReply on_reply) {
    Send(std::span(args.begin(), args.size()), std::move(on_reply));
  }

  int fd() const;
  bool wants_write() const { return written_ < out_.size() || sealed_sent_ < sealed_.size(); }
  // Commands whose reply has not come.
  size_t awaited() const { return on_reply_.size(); }
  // When the oldest of them was sent, or the last reply came if that was later.
  Time waiting_since() const { return waiting_since_; }

  // Write and read what is possible now. A Status that is not ok: the connection is lost.
  Status Write();
  Status Read();

  // Sends one command and waits for its reply: for setting up, and for tests. After a failure the
  // connection is of no more use.
  Result<ReplyPtr> Call(std::span<const std::string_view> args, Duration timeout);
  Result<ReplyPtr> Call(std::initializer_list<std::string_view> args, Duration timeout) {
    return Call(std::span(args.begin(), args.size()), timeout);
  }

 private:
  explicit RedisConnection(redisContext* context);
  Status StartTls(const RedisAddress& address, Duration timeout);
  Status Greet(const RedisAddress& address, Duration timeout);
  Status SendBytes(std::string& bytes, size_t& sent);
  // How many bytes came; none: not now.
  Result<size_t> ReceiveBytes();
  Status Parse(std::string_view bytes);
  Status WaitFor(short events, Time until, std::string_view what) const;
  Status Lost(std::string_view what) const;

  redisContext* context_;
  std::unique_ptr<RedisTls> tls_;  // none: the connection is plain
  std::string sealed_;             // out_ as TLS sends it
  size_t sealed_sent_ = 0;
  std::string plain_;  // what TLS made of what came
  std::string out_;
  size_t written_ = 0;  // of out_
  std::vector<char> in_;
  std::deque<OnReply> on_reply_;
  Time waiting_since_{};
};

}  // namespace tidemill
