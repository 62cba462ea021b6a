// The part of a simulated run that its seed decides: every setting that changes how the loops work
// together, and every fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "replay/group_buffer.h"
#include "sim/faulty_bus.h"
#include "sim/sim_judge.h"
#include "sim/sim_scorer.h"
#include "sim/simulation.h"

namespace tidemill::sim {

// The processes of the simulated cluster.
enum : int { kLearner, kRollout1, kRollout2, kTools1, kTools2, kReward, kFate, kProcesses = kFate };

constexpr uint32_t kGroupSize = 3, kBatch = 6, kBatchGroups = kBatch / kGroupSize;

std::vector<v1::Task> MakeTasks(const std::string& prefix, int count);

struct Draw {
  Draw(Random& random, const SimOptions& options);
  // The scorers of episodes.
  RewardConfig Rewards() const;

  int64_t eta;
  uint64_t hard_max;
  bool mask;
  bool prefetch;
  ReplayConfig replay;
  bool command;  // an external scorer as well
  ScorerFaults scorer;
  bool judge;      // a model that judges as well
  bool compares;   // it compares the members of a group
  bool order;      // and says which gradings go first
  bool held_back;  // planted bug: none ever goes
  JudgeFaults judging;
  BusFaults bus;
  int forger;          // the process that forges; -1: none
  double forge_share;  // of its messages
  bool eager;          // calls begin while their turn is drawn
  bool deliver_now;    // results end turns
  bool await_at_end;
  double slow_store;
  size_t topic_capacity;
  double crashes;
};

}  // namespace tidemill::sim
