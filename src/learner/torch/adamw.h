// AdamW (decoupled weight decay) over named leaves, in one pass over memory for each of them on the
// CPU.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "learner/torch/block_moments.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;         // of every parameter
  bool decay_matrices_only = false;  // gains of norms and biases are left alone
  // Moments in a byte each (model/moment_codes.h): of parameters in bfloat16, and of float32 ones
  // on the CPU that have at least kSmallestInBlocks numbers; the others' stay float32.
  bool moments_in_blocks = false;
};
inline constexpr int64_t kSmallestInBlocks = 4096;

// √Σ g² over all parameters; one without a gradient counts as zero. Not finite where a gradient is
// not.
double GradNorm(const NamedTensors& parameters);
void ZeroGrad(NamedTensors& parameters);

// Holds two moments for each parameter, and of parameters in bfloat16 what they lack to float32
// (model/split_float.h): the two together are what is trained. Parameters in bfloat16 need
// moments_in_blocks. Not thread-safe.
class AdamW {
 public:
  explicit AdamW(AdamWOptions options) : options_(options) {}

  // One update of every parameter that has a gradient, in place. The gradients are multiplied with
  // `grad_scale` first (clipping), without being changed.
  void Step(NamedTensors& parameters, double lr, double grad_scale = 1.0);

  // Parameters in bfloat16 become the float32 numbers `values` has of them, to the last bit.
  // Others, and those it has in bfloat16 or not at all, stay as they are.
  void TakeExact(NamedTensors& parameters, const NamedTensors& values);
  // All parameters in float32: new tensors of those in two halves, the others themselves.
  NamedTensors Exact(const NamedTensors& parameters) const;

  uint64_t steps() const { return steps_; }
  // For checkpoints: "m.NAME", "v.NAME" (in blocks these are codes, with scales "m_scale.NAME" and
  // "v_scale.NAME"), "rest.NAME" of parameters in bfloat16, and the count of steps. Copies, or what
  // the next step changes.
  NamedTensors State() const;
  NamedTensors SharedState() const;
  // kInvalid: a moment that has no parameter, another shape or another type; nothing was changed
  // then.
  Status Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps);

 private:
  bool InBlocks(const at::Tensor& parameter) const;
  void MakeMoments(const NamedTensors& parameters);
  Status CheckState(const std::string& key, const at::Tensor& tensor, const std::string& kind,
                    const at::Tensor& parameter) const;
  void UpdateSplit(const AdamWUpdate& update, const std::string& name, const at::Tensor& grad,
                   at::Tensor& parameter);
  void UpdateInBlocks(const AdamWUpdate& update, const std::string& name, const at::Tensor& grad,
                      at::Tensor& parameter);

  AdamWOptions options_;
  uint64_t steps_ = 0;
  NamedTensors m_;
  NamedTensors v_;
  NamedTensors m_scales_, v_scales_;  // of those in blocks, whose m_ and v_ are codes
  NamedTensors rests_;                // of those in bfloat16; absent: 0
};

}  // namespace tidemill
