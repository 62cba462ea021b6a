// A run under virtual time: the loops of production over ports that take what service times say.
//
//   config, layout, service times -> RunPlan -> rates, busy shares, lag, what bounds it
//
// Exact in what loops decide: admission, groups, staleness, batches, leases, back-pressure.
// Nothing fails. All rollout loops are one here, so are tool loops and reward loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "planner/service_times.h"
#include "run/run_config.h"

namespace tidemill {

// Where the ports of a run are.
struct PlanLayout {
  uint32_t engines = 1;
  uint32_t ranks = 1;
  // Engines and trainer are on one machine with the boxes, and all share `cores`.
  bool one_machine = false;
  // The only GPU has engine and trainer; 1 is either of them alone. 0: they have GPUs of their own.
  double shared_gpu = 0;
  double cores = 0;  // of boxes; 0: enough
  uint32_t tool_slots = 1;
  uint32_t grade_slots = 1;
};

struct PlanLimits {
  double seconds = 3600;         // virtual
  bool until_rates_hold = true;  // stops before where they do, within 2 %
  // The whole run counts, from its start to its last step; else what follows its first part.
  bool whole = false;
  uint64_t episodes_max = 400'000;
  // A large fleet may be planned by a part of it, as alike as it can be: a few of its engines, and
  // as few slots, cores, episodes in flight and groups a step. Only in mode async: there a step
  // does not wait for the slowest of many.
  bool by_part = true;
};

// "engine", "trainer", "calls" and "gradings" (slots for them), "boxes" (both), "cores" (what
// boxes, or all of one machine, want of them) and "store".
struct PortShare {
  std::string name;
  double busy = 0;  // 0..1, of all of them
  uint64_t count = 1;
};

struct PlanReport {
  std::string ended;  // why it ended, in words
  bool rates_hold = false;
  double seconds = 0;                 // virtual, all of it
  double counted_s = 0;               // of them, what rates are of
  uint64_t steps = 0;                 // in what counts
  double episodes_per_s = 0;          // scored
  double trained_episodes_per_s = 0;  // used by a step
  double generated_tokens_per_s = 0;
  double trained_tokens_per_s = 0;
  double step_s = 0;                 // from one step to the next
  double lag_mean = 0, lag_p99 = 0;  // of trained tokens, in steps
  double too_old = 0;                // share of the scored episodes, dropped for their age
  double masked = 0;                 // share of tokens in batches, masked for their age
  double zero_variance = 0;          // share of the scored episodes
  double rebuilt = 0;                // share of later turns whose cache had been given up
  double in_flight = 0;              // episodes at the end
  double seconds_to_steps = 0;       // of all run.steps
  bool steps_extrapolated = false;
  std::vector<PortShare> ports;
  std::string bound;  // what bounds it, in words
  uint32_t part = 1;  // of the fleet one in so many was planned
  // Work that is no port's: messages and operations of the store a second.
  double bus_messages_per_s = 0, store_ops_per_s = 0;
};

// Keys of `config` that are not part of the model are told by NotPlanned. kInvalid: the config, or
// times without a script. kUnavailable: no step was made within the limits.
Result<PlanReport> RunPlan(const RunConfig& config, const PlanLayout& layout,
                           const ServiceTimes& times, const PlanLimits& limits);

// Parts of the config that a plan leaves out, in words.
std::vector<std::string> NotPlanned(const RunConfig& config);

}  // namespace tidemill
