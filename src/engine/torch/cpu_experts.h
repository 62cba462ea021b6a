// The feed-forward part of a layer with experts in a CPU step: router, the rows of each expert
// together, and their weighted sum.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/torch/adapter_sums.h"
#include "engine/torch/cpu_weights.h"
#include "model/layer_plan.h"

namespace tidemill {

// Rows [first, first + rows) of a thread's part of a step.
struct ExpertBlock {
  const PackedLayer& layer;
  const ExpertPlan& plan;
  MatmulMode gate;
  long index;  // of the layer
  long first, rows;
  const float* h;  // [rows, width]
  long width;
};

// Not thread-safe; one for each thread. What a row gives does not depend on the other rows.
class ExpertMixer {
 public:
  // [rows, width], until the next call. `told(row, chosen)` is called for each row of the block
  // with the plan's number of experts, the most likely first.
  const float* Mix(const CpuKernels& kernels, const ExpertBlock& block, AdapterSums& adapters,
                   const std::function<void(long row, const uint16_t* chosen)>& told);

 private:
  void Route(const CpuKernels& kernels, const ExpertBlock& block);
  void AddExpert(const CpuKernels& kernels, const ExpertBlock& block, long expert,
                 AdapterSums& adapters);

  FloatBuffer logits_, picked_, act_, out_, sum_;
  std::vector<uint16_t> chosen_;  // [rows, chosen]
  std::vector<float> weights_;    // likewise
  std::vector<long> rows_, step_rows_;
  std::vector<float> row_weights_;
};

}  // namespace tidemill
