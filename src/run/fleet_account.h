// The totals of a fleet, told by one process of it: the totals of all workers there ever were, and
// what of the run is still on its bus. For the summary of a learner.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "bus/roster.h"
#include "core/status.h"
#include "observe/fleet_busy.h"
#include "run/run_snapshot.h"
#include "store/run_reader.h"

namespace tidemill {

struct FleetAccount {
  RosterTotals totals;
  std::set<uint64_t> groups;                            // waiting, or held by a worker
  std::map<uint64_t, std::set<uint32_t>> trajectories;  // finished members, not taken in yet

  // Whether somebody still has what is missing of this group.
  bool Knows(const GroupBooks::Open& group) const;
};

// When the learner has ended its loops. Waits for one more heartbeat of every worker, a few seconds
// at most, so that the totals are of the end.
Result<FleetAccount> GatherFleet(const std::string& url, const std::string& run);

// 0 where it was never told.
double TotalOf(const RosterTotals& totals, const std::string& key);

// Puts what rollout, tool and reward workers did, so far, into a learner's snapshot.
void AddWorkersWork(const RosterTotals& totals, RunSnapshot& snapshot);

// Puts into a learner's snapshot what it cannot know by itself: the work of others, and that of
// the learners before it.
void AddFleetWork(const FleetAccount& fleet, RunSnapshot& snapshot);

}  // namespace tidemill
