// AdamW (decoupled weight decay) over named leaves, in one pass over memory for each of them on the
// CPU.
#pragma once

#include <cstdint>
#include <memory>

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
  // What is kept of parameters in bfloat16 on a GPU lies in pinned memory of the host
  // (model/torch/host_state.h). It changes no number.
  bool state_on_host = false;
  int64_t host_piece_numbers = 0;  // copied at once, for tests; 0: the usual number
};
inline constexpr int64_t kSmallestInBlocks = 4096;

// √Σ g² over all parameters; one without a gradient counts as zero. Not finite where a gradient is
// not.
double GradNorm(const NamedTensors& parameters);
void ZeroGrad(NamedTensors& parameters);

class HostState;

// Holds two moments for each parameter, and of parameters in bfloat16 what they lack to float32
// (model/split_float.h): the two together are what is trained. Parameters in bfloat16 need
// moments_in_blocks. Not thread-safe.
class AdamW {
 public:
  explicit AdamW(AdamWOptions options);
  ~AdamW();

  // With state_on_host, before anything else: takes the memory for these parameters. Nothing to do
  // without. kFull: memory of the host or of the GPU does not suffice; kInvalid: none of the
  // parameters is in bfloat16 on a GPU.
  Status TakeHostMemory(const NamedTensors& parameters);

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
  // the next step changes; complete when these return.
  NamedTensors State() const;
  NamedTensors SharedState() const;
  // kInvalid: a moment that has no parameter, another shape or another type; nothing was changed
  // then.
  Status Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps);
  // That kInvalid alone, of a Restore with the same.
  Status CheckRestore(const NamedTensors& parameters, const NamedTensors& state) const;

 private:
  // Of one parameter; undefined what there is none of.
  struct Kept {
    at::Tensor m, v, m_scale, v_scale, rest;
  };

  bool InBlocks(const at::Tensor& parameter) const;
  void MakeMoments(const NamedTensors& parameters);
  // Memory of the host for it; all undefined where it is kept beside its parameter.
  Kept HostPlaces(const std::string& name) const;
  // Until copies of the last step between host and GPU are done.
  void WaitForHost() const;
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
  // Null: everything lies beside its parameter. Else the tensors above of those in bfloat16 are
  // its.
  std::unique_ptr<HostState> host_;
};

}  // namespace tidemill
