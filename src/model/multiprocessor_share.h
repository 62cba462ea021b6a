// A fixed share of a GPU's multiprocessors for the learner, so that an engine on the same GPU finds
// the others free at any time. Here is what is decided; model/torch/learner_share.h does it.
//
//   counts of the GPU -> how many the learner gets -> a group of them -> a stream that runs there
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/status.h"

namespace tidemill {

// How the multiprocessors of a GPU can be divided.
struct MultiprocessorCounts {
  int all = 0;
  int smallest = 1;  // group
  int step = 1;      // sizes of groups are multiples of it
};

// The largest group that leaves at least `reserved` free. kInvalid: there is none, with the most
// that can be reserved.
Result<int> LearnerMultiprocessors(const MultiprocessorCounts& counts, int reserved);

// The driver's calls for a share, in the order in which it is asked. Not thread-safe.
class MultiprocessorDriver {
 public:
  virtual ~MultiprocessorDriver() = default;
  virtual Result<MultiprocessorCounts> Counts() = 0;
  // A group of at least `count`, in place of the one before; how many it has.
  virtual Result<int> Group(int count) = 0;
  // A stream whose kernels run on the group. It lasts as long as the process.
  virtual Result<void*> Stream() = 0;
  // Whether what the learner does works on it.
  virtual Status Try(void* stream) = 0;
};

struct MultiprocessorShare {
  int all = 0;
  int learner = 0;
  void* stream = nullptr;
};

// kInvalid: as LearnerMultiprocessors; else what the driver says, or kUnavailable where its groups
// leave fewer than `reserved` free.
Result<MultiprocessorShare> MakeShare(MultiprocessorDriver& driver, int reserved);

// Addresses of a library's functions, in the order of `names`. `find` gives null for one that is
// not there. kUnavailable names all of these.
Result<std::vector<void*>> FindEntryPoints(std::span<const char* const> names,
                                           const std::function<void*(const char*)>& find);

}  // namespace tidemill
