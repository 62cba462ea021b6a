#include "run/fleet_account.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "bus/broker.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

// Until every worker that is there has told what it did since we began to wait.
Status WaitForBeats(RunInspector& inspector, const std::string& run) {
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
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunInspector> inspector, ConnectInspector(url));
  TM_RETURN_IF_ERROR(WaitForBeats(*inspector, run));
  FleetAccount account;
  TM_ASSIGN_OR_RETURN(account.totals, inspector->Totals(run));
  // In the order in which a group passes them: what moves on meanwhile is seen where it went.
  TM_RETURN_IF_ERROR(inspector->ForEachMessage(run, kGroupsTopic, [&](std::string_view body) {
    v1::GroupLease group;
    if (group.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.groups.insert(group.group());
    }
  }));
  TM_RETURN_IF_ERROR(inspector->ForEachMessage(run, kGivenUpTopic, [&](std::string_view body) {
    v1::GroupGivenUp given_up;
    if (given_up.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.groups.insert(given_up.group());
    }
  }));
  TM_RETURN_IF_ERROR(inspector->ForEachMessage(run, kTrajectoriesTopic, [&](std::string_view body) {
    v1::Trajectory trajectory;
    if (trajectory.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      account.trajectories[trajectory.id().group()].insert(trajectory.id().member());
    }
  }));
  return account;
}

namespace {

// "rollout/tool_calls" is a counter's total over all processes of a role; what is not one says how
// long loops and ports were busy.
bool IsCounter(std::string_view key) {
  for (const std::string& kind : {kBusyLoop, kTimeLoop, kBusyPort, kTimePort}) {
    if (key.starts_with(kind)) return false;
  }
  return key != "busy_seconds";
}

template <typename Put>
void ForEachTotal(const RosterTotals& totals, Put put) {
  for (const auto& [name, total] : totals) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos || !IsCounter(std::string_view(name).substr(slash + 1)))
      continue;
    put(name.substr(0, slash), name.substr(slash + 1), CountOf(totals, name));
  }
}

}  // namespace

void AddWorkersWork(const RosterTotals& totals, RunSnapshot& s) {
  ForEachTotal(totals, [&](const std::string& role, const std::string& key, uint64_t total) {
    if (role != "learner") s.counts.emplace(key, total);
  });
}

void AddFleetWork(const FleetAccount& fleet, RunSnapshot& s) {
  AddWorkersWork(fleet.totals, s);
  ForEachTotal(fleet.totals, [&](const std::string& role, const std::string& key, uint64_t total) {
    if (role == "learner") s.counts[key] = total;
  });
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
