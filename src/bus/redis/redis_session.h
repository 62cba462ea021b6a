// Everything a client needs of a server it has just connected to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/client_view.h"
#include "bus/redis/redis_connection.h"
#include "bus/redis/redis_scripts.h"

namespace tidemill {

struct RedisSession {
  std::unique_ptr<RedisConnection> command;  // scripts and all that answers at once
  std::unique_ptr<RedisConnection> reader;   // waits for messages
  std::string reader_id;                     // as CLIENT UNBLOCK wants it
  std::string epoch;  // of the run's data: another one, and the server has lost what it knew
  std::vector<ListedTopic> topics;
};

// Waits up to `timeout` for each answer. kInvalid: the server will not do, with what to change.
Result<RedisSession> OpenRedisSession(const RedisAddress& address, const RedisKeys& keys,
                                      std::string_view client, Duration timeout);

// Reasons in INFO against using this server: too old, or it evicts keys when memory is short.
Status CheckRedisInfo(std::string_view info);

// The options of a topic as the server keeps them, or nothing if they cannot be read.
std::optional<TopicOptions> ParseRedisOptions(std::string_view text);

// The reply to HGETALL of the topics key; what cannot be read is left out.
std::vector<ListedTopic> ParseRedisTopics(const redisReply& reply);

}  // namespace tidemill
