// The run's real database, in memory: it is given what became durable, and a learner that goes on
// reads from it what the program would read.
#pragma once

#include <memory>
#include <vector>

#include "core/clock.h"
#include "store/run_db.h"

namespace tidemill::sim {

class RealDb {
 public:
  explicit RealDb(const Clock& clock);

  // The simulated store holds it durably from now on.
  void Keep(StoreOp op) { kept_.push_back(std::move(op)); }
  // Goes back to the step, as a process does that starts.
  Result<ResumeState> Resume(uint64_t step, uint32_t max_uses);

 private:
  std::unique_ptr<RunDb> db_;
  std::vector<StoreOp> kept_;  // since the last resume
};

}  // namespace tidemill::sim
