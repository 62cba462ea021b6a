#include "bus/redis/redis_bus.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <utility>

#include "bus/redis/redis_connection.h"
#include "bus/redis/redis_io.h"
#include "bus/redis/redis_scripts.h"
#include "bus/redis/redis_url.h"
#include "bus/topic_rules.h"

namespace tidemill {

RedisBus::RedisBus(RedisBusOptions options)
    : BrokerBus(options.local, options.clock), options_(std::move(options)) {}

Result<std::unique_ptr<RedisBus>> RedisBus::Connect(RedisBusOptions options) {
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(options.url));
  TM_RETURN_IF_ERROR(CheckRedisRun(options.run));
  std::unique_ptr<RedisBus> bus(new RedisBus(std::move(options)));
  TopicOptions dead;
  dead.capacity = kDeadCapacity;
  {
    MutexLock lock(bus->shared().mutex);
    bus->shared().local.OpenDeadLetters(dead);
  }
  auto io = std::make_unique<RedisIo>(
      bus->options_, std::move(address), bus->clock(), bus->shared(),
      [raw = bus.get()](const std::string& topic) { raw->WakeTopic(topic); });
  TM_RETURN_IF_ERROR(io->Start());
  bus->Carry(std::move(io));
  return bus;
}

Status RemoveRedisRun(const std::string& url, std::string_view run) {
  constexpr Duration kTimeout = std::chrono::seconds(5);
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(url));
  TM_ASSIGN_OR_RETURN(auto connection, RedisConnection::Connect(address, kTimeout));
  const std::string pattern = RedisKeys(run).prefix + "*";
  std::string cursor = "0";
  do {
    TM_ASSIGN_OR_RETURN(
        ReplyPtr page,
        connection->Call({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, kTimeout));
    if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) {
      return Unavailable("redis: SCAN: " + std::string(ReplyText(*page)));
    }
    cursor = ReplyText(*page->element[0]);
    for (size_t i = 0; i < page->element[1]->elements; ++i) {
      const std::string_view key = ReplyText(*page->element[1]->element[i]);
      TM_ASSIGN_OR_RETURN(ReplyPtr gone, connection->Call({"UNLINK", key}, kTimeout));
    }
  } while (cursor != "0");
  return Ok();
}

}  // namespace tidemill
