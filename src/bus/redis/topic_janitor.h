// Removes the inboxes of workers that are gone. One that leaves takes its own away; one that is
// killed cannot, and answers to it would stay on the server for ever.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_roster.h"
#include "core/mutex.h"

namespace tidemill {

// The worker whose topic this is; empty: nobody's in particular.
std::string TopicOwner(std::string_view topic);

// Topics of workers that are neither in the roster nor have just come: what was ownerless at the
// last look as well. `suspects` is kept from look to look.
std::vector<std::string> OrphanTopics(const std::vector<std::string>& topics,
                                      const std::set<std::string>& present,
                                      std::set<std::string>& suspects);

// Looks once a minute, on a thread of its own. The bus must outlive it.
class TopicJanitor {
 public:
  TopicJanitor(RedisBus& bus, RedisRoster roster, std::set<std::string> keep);
  ~TopicJanitor();

 private:
  void Run();
  void Look();

  RedisBus& bus_;
  RedisRoster roster_;                // the thread's
  const std::set<std::string> keep_;  // owners that are there without being in the roster
  std::set<std::string> suspects_;    // the thread's
  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
