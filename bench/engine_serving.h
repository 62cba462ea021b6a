// The engine under a server's load: long prompts, and conversations whose later turns cost only
// what is new, also while weights change.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct ServingReport {
  int prompt_tokens = 0;  // of 2 layers of width 64 with a vocabulary of 151,643
  int threads = 0;
  double prompt_seconds = 0;      // until its first token
  double prompt_cpu_seconds = 0;  // of all threads
  double hit_rate = 0;            // prompt tokens of conversations found in the cache
  double hit_rate_swapping = 0;   // with new weights every second
  uint64_t swaps = 0;             // meanwhile

  std::string ToText() const;
};

// Takes about ten seconds.
Result<ServingReport> MeasureServing(uint64_t seed);

}  // namespace tidemill
