// What learns from the sessions of simulated clients: takes samples from the bus as replay does and
// uses each in a step that becomes durable, or is lost with the process; answers for attempts at
// tasks that sessions are compared with, as the dispatcher does. And what must be true of
// signals, verdicts and uses at the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "bus/memory/memory_bus.h"
#include "replay/live_pool.h"
#include "sim/sim_store.h"
#include "sim/world.h"

namespace tidemill::sim {

// The clients' feedback on answers that was acknowledged.
struct SignalLedger {
  using Key = std::pair<std::string, std::string>;  // request id, source
  std::map<Key, double> acknowledged;
  // Said when a crash came: nobody knows whether it is stored.
  std::map<Key, std::set<double>> open;
};

// Belongs to the server's process and dies with it.
class LiveLearner {
 public:
  // `deaf`: planted bug, deletions are not heard.
  LiveLearner(World& world, ProcessId process, MemoryBus& bus, SimStore& store, uint64_t step,
              bool deaf);

  // The deletion of the session is done: a batch with something of it is a broken promise.
  void Gone(uint64_t session) { gone_.insert(session); }

  // So many trajectories wait for a step.
  size_t waiting() const { return pool_.size(); }
  uint64_t used() const { return used_; }

 private:
  void Train();
  void AnswerSiblings();

  World& world_;
  const ProcessId process_;
  MemoryBus& bus_;
  std::unique_ptr<StorePort> store_;
  LivePool pool_{1000};
  const bool deaf_;
  std::set<uint64_t> gone_;  // sessions
  uint64_t step_;
  uint64_t used_ = 0;
};

// Every signal that was acknowledged is there with its newest score; every verdict is what the
// stored signals say; nothing without a signal was used, nothing twice, and nothing is left over
// that could have been used (`others_min` others have a signal).
void CheckSignals(const SimStore& store, const SignalLedger& ledger, size_t others_min,
                  World& world);

}  // namespace tidemill::sim
