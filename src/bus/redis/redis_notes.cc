#include "bus/redis/redis_notes.h"

#include <hiredis/hiredis.h>

#include "bus/redis/redis_scripts.h"

namespace tidemill {

Result<RedisNotes> RedisNotes::Connect(std::string_view url, std::string_view run,
                                       Duration timeout) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(RedisClient client, RedisClient::Connect(url, timeout));
  return RedisNotes(std::move(client), RedisKeys(run).prefix);
}

Status RedisNotes::Put(std::string_view name, std::string_view text, Duration time) {
  const auto ms = std::chrono::duration_cast<milliseconds>(time).count();
  return client_.Do({"SET", Key(name), text, "PX", std::to_string(ms)}).status();
}

Result<std::optional<std::string>> RedisNotes::Get(std::string_view name) {
  TM_ASSIGN_OR_RETURN(const ReplyPtr reply, client_.Do({"GET", Key(name)}));
  if (reply->type == REDIS_REPLY_NIL) return std::optional<std::string>();
  return std::optional<std::string>(ReplyText(*reply));
}

Status RedisNotes::Erase(std::string_view name) {
  return client_.Do({"DEL", Key(name)}).status();
}

}  // namespace tidemill
