#include "cli/fleet_account.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "bus/redis/redis_inspector.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

// Until every worker that is there has told what it did since we began to wait.
Status WaitForBeats(RedisInspector& inspector, const std::string& run) {
  const RealClock clock;
  const Time began = clock.Now();
  while (true) {
    TM_ASSIGN_OR_RETURN(const std::vector<RosterEntry> workers, inspector.Workers(run));
    const Duration waited = clock.Now() - began;
    const bool told = std::all_of(workers.begin(), workers.end(), [&](const RosterEntry& entry) {
      return entry.lost() || entry.age < waited;
    });
    if (told || waited > kBeatEvery + std::chrono::seconds(1)) return Ok();
    std::this_thread::sleep_for(milliseconds(100));
  }
}

uint64_t CountOf(const RosterTotals& totals, const std::string& key) {
  return static_cast<uint64_t>(std::llround(TotalOf(totals, key)));
}

}  // namespace

double TotalOf(const RosterTotals& totals, const std::string& key) {
  const auto found = totals.find(key);
  return found == totals.end() ? 0.0 : std::max(0.0, found->second);
}

bool FleetAccount::Knows(const GroupBooks::Open& group) const {
  if (groups.count(group.group) != 0) return true;
  std::set<uint32_t> members = group.stored;
  if (const auto found = trajectories.find(group.group); found != trajectories.end()) {
    members.insert(found->second.begin(), found->second.end());
  }
  return members.size() >= group.members;
}

Result<FleetAccount> GatherFleet(const std::string& url, const std::string& run) {
  TM_ASSIGN_OR_RETURN(RedisInspector inspector, RedisInspector::Connect(url));
  TM_RETURN_IF_ERROR(WaitForBeats(inspector, run));
  FleetAccount account;
  TM_ASSIGN_OR_RETURN(account.totals, inspector.Totals(run));
  // In the order in which a group passes them: what moves on meanwhile is seen where it went.
  TM_RETURN_IF_ERROR(inspector.ForEachMessage(run, kGroupsTopic, [&](std::string_view body) {
    v1::GroupLease group;
    if (group.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.groups.insert(group.group());
    }
  }));
  TM_RETURN_IF_ERROR(inspector.ForEachMessage(run, kGivenUpTopic, [&](std::string_view body) {
    v1::DispatchEvent event;
    if (event.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.groups.insert(event.group().group());
    }
  }));
  TM_RETURN_IF_ERROR(inspector.ForEachMessage(run, kTrajectoriesTopic, [&](std::string_view body) {
    v1::Trajectory trajectory;
    if (trajectory.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.trajectories[trajectory.id().group()].insert(trajectory.id().member());
    }
  }));
  return account;
}

void AddWorkersWork(const RosterTotals& totals, RunSnapshot& s) {
  const auto count = [&](const char* key) { return CountOf(totals, key); };
  s.generated_tokens = count("rollout/tokens");
  s.tool_calls = count("rollout/tool_calls");
  s.tool_retries = count("rollout/retries");
  s.calls_lost = count("rollout/calls_lost");
  s.groups_lost = count("rollout/groups_lost");
  s.skipped = count("rollout/skipped");
  s.gradings = count("tools/gradings");
  s.unavailable = count("tools/unavailable");
  s.cache_hits = count("tools/cache_hits");
  s.tool_commands = count("tools/commands");
  s.cache_misses = s.tool_commands - std::min(s.tool_commands, count("tools/joined"));
  const double commands = std::max<double>(1, static_cast<double>(s.tool_commands));
  s.tool_ms = 1e3 * TotalOf(totals, "tools/wall_seconds") / commands;
  s.queue_ms = 1e3 * TotalOf(totals, "tools/queue_seconds") / commands;
  s.reward_retries = count("reward/retries");
  s.unscorable = count("reward/unscorable");
  s.second_looks = count("reward/second_looks");
  s.repeated_literals = count("reward/repeated_literals");
}

void AddFleetWork(const FleetAccount& fleet, RunSnapshot& s) {
  AddWorkersWork(fleet.totals, s);
  const auto count = [&](const char* key) { return CountOf(fleet.totals, key); };
  s.stale = count("learner/stale");
  s.duplicates = count("learner/duplicates");
  s.put_off = count("learner/put_off");
  s.too_old = count("learner/too_old");
  s.zero_variance = count("learner/zero_variance");
  s.evicted = count("learner/evicted");
  s.rescored = count("learner/rescored");
  s.trained_tokens = count("learner/trained_tokens");
  for (const auto& [key, busy] : fleet.totals) {
    for (const bool port : {false, true}) {
      const std::string& kind = port ? kBusyPort : kBusyLoop;
      const size_t slash = key.find('/');
      if (slash == std::string::npos || key.compare(slash + 1, kind.size(), kind) != 0) continue;
      const std::string name = key.substr(slash + 1 + kind.size());
      const double time =
          TotalOf(fleet.totals, key.substr(0, slash + 1) + (port ? kTimePort : kTimeLoop) + name);
      std::erase_if(s.busy, [&](const BusyShare& b) { return b.port == port && b.name == name; });
      if (time > 0) s.busy.push_back({name, port, std::clamp(busy / time, 0.0, 1.0)});
    }
  }
}

}  // namespace tidemill
