// Keeps a run's part of the server in order. It removes the inboxes of workers that are gone: one
// that leaves takes its own away; one that is killed cannot, and answers to it would stay on the
// server for ever. And where the server has no memory left, it removes what no worker of ours
// wrote.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_roster.h"
#include "bus/topic_rules.h"
#include "core/mutex.h"

namespace tidemill {

// Topics of workers that are neither in the roster nor have just come: what was ownerless at the
// last look as well. `suspects` is kept from look to look.
std::vector<std::string> OrphanTopics(const std::vector<std::string>& topics,
                                      const std::set<std::string>& present,
                                      std::set<std::string>& suspects);

// Removes what RedisBus never writes: bodies of more than `bytes_max`, entries of streams that are
// as large, and what is in a stream above twice its topic's capacity, the newest first. Gives their
// count.
Result<size_t> RemoveOversized(RedisClient& client, const RedisKeys& keys, size_t bytes_max);

// Removes the bodies that no message names, those of dead letters with them: what nobody named at
// the last look as well, because a body is written before its message. `suspects` is kept from look
// to look.
Result<size_t> RemoveUnnamed(RedisClient& client, const RedisKeys& keys,
                             std::set<std::string>& suspects);

// Looks once a minute, and within a second where memory is short, on a thread of its own. The bus
// must outlive it.
class TopicJanitor {
 public:
  // RedisBus writes no body of more than `body_max`.
  TopicJanitor(BrokerBus& bus, RedisClient client, std::string_view run, std::set<std::string> keep,
               size_t body_max = kBodyMax);
  ~TopicJanitor();

 private:
  void Run();
  void RemoveOrphans();
  void MakeRoom();

  BrokerBus& bus_;
  const RedisKeys keys_;
  RedisClient client_;  // the thread's
  const size_t body_max_;
  uint64_t no_memory_ = 0;            // the thread's: of the bus, at the last look
  const std::set<std::string> keep_;  // owners that are there without being in the roster
  std::set<std::string> suspects_;    // the thread's: topics
  std::set<std::string> unnamed_;     // the thread's: keys of bodies
  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
