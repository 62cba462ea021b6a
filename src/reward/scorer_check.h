// Tries the external commands of a run's scorers before the run starts, so that a scorer that
// cannot work is found in the first second and not after an hour.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "reward/reward_loop.h"

namespace tidemill {

struct ScorerCheckOptions {
  uint32_t retries = 3;
  std::chrono::milliseconds retry_delay{200};
};

// Asks each command that a scorer would ask one question about `task`: an episode that submitted
// nothing and passed no test. Waits for the answers on the calling thread; the port must not have
// an owner yet. kInvalid names the command and what it did.
Status CheckScorers(const std::vector<WeightedScorer>& scorers, ScorerPort& port,
                    const v1::Task& task, const ScorerCheckOptions& options);

}  // namespace tidemill
