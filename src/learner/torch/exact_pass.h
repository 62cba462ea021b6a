// The engine's arithmetic in the learner's forward pass: the same kernels in the same order for
// each row, so that both have the same log-probabilities to the last bit and the ratio of tokens
// that the current weights drew is exactly 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/torch/cpu_weights.h"
#include "learner/torch/train_kernels.h"
#include "model/layer_plan.h"
#include "model/rope_config.h"
#include "model/torch/model.h"

namespace tidemill {

struct SegmentedPack;

// Not thread-safe. Tensors are float32, contiguous, on the CPU; results are written to those given.
class ExactPass {
 public:
  // `config` and `view` must outlive it.
  ExactPass(const ModelConfig& config, const ModelTensorsView& view);
  ~ExactPass();

  // The weights are read again before the next pass.
  void WeightsChange() { packed_.layers.clear(); }
  // A pass begins: where each token's keys and values go.
  void Begin(const SegmentedPack& pack);

  void Norm(const at::Tensor& x, const at::Tensor& gains, const at::Tensor& out) const;
  void Qkv(size_t layer, const at::Tensor& x, const at::Tensor& projected) const;
  // What `projected` attends to: [tokens, heads * head_dim].
  void Attend(size_t layer, const at::Tensor& projected, const at::Tensor& attended);
  // x += attended O, or where there is a norm behind it the product itself.
  void O(size_t layer, const at::Tensor& attended, const at::Tensor& x, bool add) const;
  // Gate and up side by side, and what the activation makes of them.
  void GateUp(size_t layer, const at::Tensor& h, const at::Tensor& gated,
              const at::Tensor& act) const;
  void Down(size_t layer, const at::Tensor& act, const at::Tensor& x, bool add) const;
  // [rows, vocabulary].
  at::Tensor Logits(const at::Tensor& hidden) const;
  // Of targets[i] (int64) under the softmax of row i of them.
  at::Tensor LogprobsIn(const at::Tensor& logits, const at::Tensor& targets,
                        double temperature) const;
  // Of targets[i] behind hidden[i] at temperatures[i], or at `temperature` where these are
  // undefined; without all logits in memory.
  at::Tensor Logprobs(const at::Tensor& hidden, const at::Tensor& targets, double temperature,
                      const at::Tensor& temperatures) const;

 private:
  void Multiply(const PackedMatrix& matrix, const at::Tensor& x, const at::Tensor& y,
                bool add) const;
  void RotateRows(size_t layer, int64_t first, int64_t last);
  float Eps() const { return static_cast<float>(config_.rms_norm_eps); }

  const ModelConfig& config_;
  const ModelTensorsView& view_;
  const CpuKernels& kernels_;
  const DecoderPlan plan_;
  PackedWeights packed_;  // no layers: to be packed
  std::vector<RopeTable> rotations_;
  int64_t rotated_ = 0;  // positions
  const SegmentedPack* pack_ = nullptr;
  std::vector<std::vector<int>> pages_;  // by segment, those of its parent included
  std::vector<int32_t> segment_of_;      // by token
  FloatBuffer pool_, qkv_;
};

// `exact`, whose gradient goes to `differentiable`.
at::Tensor WithGradientOf(const at::Tensor& exact, const at::Tensor& differentiable);

}  // namespace tidemill
