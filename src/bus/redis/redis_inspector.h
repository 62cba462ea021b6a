// Looks at what is on a Redis server.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/redis/redis_client.h"
#include "bus/redis/redis_entry.h"
#include "bus/redis/redis_roster.h"
#include "bus/redis/redis_scripts.h"
#include "bus/run_inspector.h"

namespace tidemill {

class RedisInspector final : public RunInspector {
 public:
  static Result<RedisInspector> Connect(std::string_view url,
                                        Duration timeout = std::chrono::seconds(5));

  Result<std::vector<std::string>> Runs() override;
  Status CheckRun(std::string_view run) override;
  Result<std::vector<TopicState>> Topics(std::string_view run) override;
  Result<std::vector<RosterEntry>> Workers(std::string_view run) override {
    return ReadRoster(client_, RedisKeys(run));
  }
  Result<RosterTotals> Totals(std::string_view run) override {
    return ReadTotals(client_, RedisKeys(run));
  }
  Status ForEachMessage(std::string_view run, std::string_view topic,
                        const std::function<void(std::string_view body)>& visit) override;
  Result<std::vector<DeadLetterEntry>> DeadLetters(std::string_view run,
                                                   const DeadQuery& query) override;
  Result<DeadLetterEntry> DeadLetter(std::string_view run, std::string_view id) override;
  Status Retry(std::string_view run, std::string_view id) override;
  Status Drop(std::string_view run, std::string_view id) override;

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
