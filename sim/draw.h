// What of a simulated run its seed decides: every setting that changes how the loops work together,
// and every fault.
#pragma once

#include <cstdint>

#include "replay/group_buffer.h"
#include "sim/faulty_bus.h"
#include "sim/sim_scorer.h"
#include "sim/simulation.h"

namespace tidemill::sim {

constexpr uint32_t kGroupSize = 3, kBatch = 6, kBatchGroups = kBatch / kGroupSize;

struct Draw {
  Draw(Random& random, const SimOptions& options);

  int64_t eta;
  uint64_t hard_max;
  bool mask;
  bool prefetch;
  BufferOptions buffer;
  bool command;  // an external scorer as well
  ScorerFaults scorer;
  BusFaults bus;
  double slow_store;
  size_t topic_capacity;
  double crashes;
};

}  // namespace tidemill::sim
