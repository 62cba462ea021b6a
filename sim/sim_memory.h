// Memory beside the gateway: scored turns of clients' sessions become cases, and later sessions of
// the same tenant are shown them, over crashes and deletions.
//
//   LiveRecorder -> memory.cases -> MemoryLoop -> SimStore;   CaseShelf -> LiveRecorder's prompts
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "live/live_recorder.h"
#include "memory/memory_loop.h"
#include "sim/sim_store.h"
#include "sim/world.h"
#include "tasks/task_book.h"

namespace tidemill::sim {

// Of one process: what it knows dies with it.
class SimMemory {
 public:
  // `blind`: planted bug, a session is shown what others of any tenant learned.
  SimMemory(World& world, ProcessId process, MemoryBus& bus, SimStore& store, bool blind);

  // For the recorder of the same process.
  LiveMemory ForSessions();
  // The session was deleted, and the store has nothing of it any more.
  void Erase(uint64_t session);
  // Nothing is on its way to it or from it.
  bool Idle() const;
  // When it is idle: what a process that begins now would have is what this one has.
  void CheckStored() const;

 private:
  CasesState Stored() const;

  World& world_;
  MemoryBus& bus_;
  SimStore& store_;
  const bool blind_;
  std::unique_ptr<StorePort> port_;
  TaskBook no_tasks_;
  CaseShelf shelf_;
  std::unique_ptr<MemoryLoop> loop_;
};

// At the end: every turn that is scored is a case with its newest score, no deleted session has
// one, and no session was shown one of another tenant.
void CheckCases(const SimStore& store, World& world);

}  // namespace tidemill::sim
