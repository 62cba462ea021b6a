// The cost of adding up a gradient over several ranks: the sum over ranks on this machine, beside a
// plain copy of the same bytes in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct AllreduceBenchOptions {
  int ranks = 2;
  std::vector<uint64_t> megabytes = {10, 100};
  uint32_t repetitions = 12;  // the first two are not counted
};

// Medians over the repetitions.
struct AllreduceSize {
  uint64_t megabytes = 0;
  double sum_ms = 0;   // RankGroup::Sum, with its check-in
  double copy_ms = 0;  // memcpy between buffers used before
  double by_copy = 0;  // sum_ms / copy_ms
};

struct AllreduceBenchReport {
  int ranks = 0;
  double empty_ms = 0;  // the sum of a single number
  std::vector<AllreduceSize> sizes;

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// The ranks are threads of this process, each with its own end of every connection. kInvalid: built
// without Gloo.
Result<AllreduceBenchReport> RunAllreduceBench(const AllreduceBenchOptions& options);

}  // namespace tidemill
