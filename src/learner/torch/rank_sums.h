// The sums over ranks after each has computed its part of a minibatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "learner/torch/objective.h"
#include "learner/torch/rank_group.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// Of this rank's parts, and after Combine of all.
struct MinibatchSums {
  double loss = 0;
  ObjectiveSums objective;
  double computed_tokens = 0;
  std::vector<double> log_ratios;  // a place for each trained token of all parts, 0 until known
};

// Not thread-safe. Keeps its buffer, as large as the gradient.
class RankSums {
 public:
  // Sums and the gradients of `leaves` become those of all ranks. A leaf that has no gradient on
  // any rank has none afterwards. Fails as RankGroup::Sum does.
  Status Combine(RankGroup& ranks, NamedTensors& leaves, MinibatchSums& sums);

 private:
  at::Tensor flat_;
};

}  // namespace tidemill
