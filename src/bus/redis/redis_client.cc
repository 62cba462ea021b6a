#include "bus/redis/redis_client.h"

#include <hiredis/hiredis.h>

#include <utility>
#include <vector>

namespace tidemill {

Result<RedisClient> RedisClient::Connect(std::string_view url, Duration timeout) {
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(url));
  RedisClient client(std::move(address), timeout);
  TM_ASSIGN_OR_RETURN(client.connection_, RedisConnection::Connect(client.address_, timeout));
  return client;
}

Result<ReplyPtr> RedisClient::Do(std::span<const std::string_view> args) {
  if (connection_ == nullptr) {
    TM_ASSIGN_OR_RETURN(connection_, RedisConnection::Connect(address_, timeout_));
  }
  Result<ReplyPtr> reply = connection_->Call(args, timeout_);
  if (!reply.ok()) {
    connection_.reset();
    return reply.status().WithContext("redis at " + address_.Name());
  }
  if (IsReplyError(**reply)) {
    const std::string text(ReplyText(**reply));
    const Code code = text.starts_with("NOPERM") ? Code::kInvalid : Code::kUnavailable;
    return Status(code, "redis at " + address_.Name() + ": " + std::string(args[0]) + ": " + text);
  }
  return reply;
}

Result<ReplyPtr> RedisClient::Call(RedisFunction function, std::string_view key,
                                   std::span<const std::string_view> args) {
  std::vector<std::string_view> all = {RedisFunctionCommand(function), RedisFunctionName(function),
                                       "1", key};
  all.insert(all.end(), args.begin(), args.end());
  Result<ReplyPtr> reply = Do(all);
  if (reply.ok() || !IsFunctionMissing(reply.status().message())) return reply;
  TM_RETURN_IF_ERROR(LoadRedisLibrary(*connection_, timeout_));
  reply = Do(all);
  if (reply.ok() || !IsFunctionMissing(reply.status().message())) return reply;
  return Unavailable("redis at " + address_.Name() +
                     ": this user may not load the functions of this version of the program; the "
                     "run's learner does, if it is of the same version");
}

}  // namespace tidemill
