// AdamW (decoupled weight decay) over named leaves, in one pass over memory for each of them on the
// CPU.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;         // of every parameter
  bool decay_matrices_only = false;  // gains of norms and biases are left alone
};

// √Σ g² over all parameters; one without a gradient counts as zero. Not finite where a gradient is
// not.
double GradNorm(const NamedTensors& parameters);
void ZeroGrad(NamedTensors& parameters);

// Holds two moments for each parameter. Not thread-safe.
class AdamW {
 public:
  explicit AdamW(AdamWOptions options) : options_(options) {}

  // One update of every parameter that has a gradient, in place. The gradients are multiplied with
  // `grad_scale` first (clipping), without being changed.
  void Step(NamedTensors& parameters, double lr, double grad_scale = 1.0);

  uint64_t steps() const { return steps_; }
  // For checkpoints: "m.NAME", "v.NAME" (copies) and the count of steps.
  NamedTensors State() const;
  // kInvalid: a moment that has no parameter or another shape; nothing was changed then.
  Status Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps);

 private:
  AdamWOptions options_;
  uint64_t steps_ = 0;
  NamedTensors m_;
  NamedTensors v_;
};

}  // namespace tidemill
