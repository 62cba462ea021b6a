// Looks at what is on a Redis server, for people and metrics: the runs there are, the depths of a
// run's topics, its dead letters. Waits for each answer; changes only what it is told to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/redis/redis_client.h"
#include "bus/redis/redis_entry.h"
#include "bus/redis/redis_roster.h"
#include "bus/redis/redis_scripts.h"

namespace tidemill {

struct TopicState {
  std::string name;
  TopicOptions options;
  uint64_t ready = 0;    // deliverable now
  uint64_t delayed = 0;  // deliverable later
  uint64_t leased = 0;
  uint64_t owed = 0;  // answers an inbox has room for
  uint64_t died = 0;  // messages of this topic that died so far
  Duration
      oldest_ready{};  // since the oldest message that waits was first published; 0: none waits
  Duration oldest_leased{};  // the same of one that somebody holds
};

struct DeadLetterEntry {
  std::string id;  // of the entry: "1767225600000-0"
  std::string topic;
  std::string reason;
  uint32_t deliveries = 0;
  int64_t died_ms = 0;   // by the server's clock
  std::string body;      // empty where body_ref is not
  std::string body_ref;  // the key of a large body, or blob:SHA256
};

// Belongs to one thread.
class RedisInspector {
 public:
  static Result<RedisInspector> Connect(std::string_view url,
                                        Duration timeout = std::chrono::seconds(5));

  // The names of the runs on the server, sorted.
  Result<std::vector<std::string>> Runs();
  // kNotFound: there is no such run; names those there are.
  Status CheckRun(std::string_view run);
  // By name.
  Result<std::vector<TopicState>> Topics(std::string_view run);

  Result<std::vector<RosterEntry>> Workers(std::string_view run) {
    return ReadRoster(client_, RedisKeys(run));
  }
  Result<RosterTotals> Totals(std::string_view run) { return ReadTotals(client_, RedisKeys(run)); }

  // Every message of the topic, whether it waits, is held or is delayed; one that moves meanwhile
  // may come twice. A body that is not kept on the server any more is left out.
  Status ForEachMessage(std::string_view run, std::string_view topic,
                        const std::function<void(std::string_view body)>& visit);

  struct DeadQuery {
    std::string topic;  // empty: of every topic
    size_t limit = 100;
  };
  // Oldest first.
  Result<std::vector<DeadLetterEntry>> DeadLetters(std::string_view run, const DeadQuery& query);
  // With its body, wherever that is but in a blob store. kNotFound: there is no such letter.
  Result<DeadLetterEntry> DeadLetter(std::string_view run, std::string_view id);
  // Puts the message back on its topic as if it were new. kNotFound: no such letter, its body or
  // its topic is gone; kFull: the topic is.
  Status Retry(std::string_view run, std::string_view id);
  // kNotFound: there is no such letter.
  Status Drop(std::string_view run, std::string_view id);

 private:
  explicit RedisInspector(RedisClient client) : client_(std::move(client)) {}
  Status EndLetter(std::string_view run, std::string_view id, std::string_view how);
  Status VisitBodies(const RedisKeys& keys, std::vector<RedisEntry> entries,
                     const std::function<void(std::string_view body)>& visit);
  Status ForEachDelayed(const RedisKeys& keys, std::string_view topic,
                        const std::function<void(std::string_view body)>& visit);

  RedisClient client_;
};

}  // namespace tidemill
