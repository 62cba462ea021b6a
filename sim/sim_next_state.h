// A judge of live turns that answers after a drawn time, is away at times, and loses questions at
// others.
#pragma once

#include "bus/memory/memory_bus.h"
#include "live/next_state.h"
#include "sim/world.h"

namespace tidemill::sim {

class SimNextState {
 public:
  // Opens the topic and takes questions from here on; both must outlive it.
  SimNextState(World& world, ProcessId process, MemoryBus& bus);
  // How the server asks, which has died so often before.
  static NextStateOptions AskedBy(int incarnation);

 private:
  void Judge();

  World& world_;
  const ProcessId process_;
  MemoryBus& bus_;
};

}  // namespace tidemill::sim
