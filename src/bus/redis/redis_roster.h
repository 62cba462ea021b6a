// Who works on a run: every worker writes a Heartbeat every few seconds; one that stops writing is
// shown as lost for an hour and then forgotten. Time is the server's. What it counted is added to
// the totals of the run and stays there, whatever becomes of the worker.
//
//   worker --Beat()--> {RUN}:workers, {RUN}:worker:NAME --Workers()--> status, metrics, autoscaler
//                      {RUN}:totals                     --Totals()---> status, summary.json
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bus/redis/redis_client.h"
#include "bus/redis/redis_scripts.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

inline constexpr Duration kBeatEvery = std::chrono::seconds(2);
inline constexpr Duration kWorkerLostAfter = std::chrono::seconds(10);
inline constexpr Duration kWorkerForgottenAfter = std::chrono::hours(1);

// "tools-HOST-4711": a worker on this host.
std::string WorkerName(std::string_view role, int64_t pid);

struct RosterEntry {
  v1::Heartbeat beat;  // the last one
  Duration age{};      // of it

  bool lost() const { return age > kWorkerLostAfter; }
};

// "tools/calls" -> how many, by all processes of the role there ever were in this run.
using RosterTotals = std::map<std::string, double>;

// By role, then name.
Result<std::vector<RosterEntry>> ReadRoster(RedisClient& client, const RedisKeys& keys);
Result<RosterTotals> ReadTotals(RedisClient& client, const RedisKeys& keys);

// Belongs to one thread.
class RedisRoster {
 public:
  static Result<RedisRoster> Connect(std::string_view url, std::string_view run);

  // `beat.worker` names the entry. `counts` is what this process (worker and started_ms) counted
  // since it began; told twice, it counts once.
  Status Beat(const v1::Heartbeat& beat, const RosterTotals& counts = {});
  // The worker left in order: it is not lost.
  Status Leave(std::string_view worker);
  Result<std::vector<RosterEntry>> Workers() { return ReadRoster(client_, keys_); }
  Result<RosterTotals> Totals() { return ReadTotals(client_, keys_); }

 private:
  RedisRoster(RedisClient client, std::string_view run) : client_(std::move(client)), keys_(run) {}

  RedisClient client_;
  RedisKeys keys_;
};

// kInvalid where a worker that is there speaks another version of the messages; names it.
Status CheckSameMessages(const std::vector<RosterEntry>& workers, const v1::Heartbeat& newcomer);

}  // namespace tidemill
