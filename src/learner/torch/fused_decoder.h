// The decoder's pass forward and backward on the CPU in float32, written out by hand: about twice
// as fast as the same through libtorch's autograd for small models, and prompts that several
// sequences share are computed once. Matrix products are libtorch's (BLAS), everything else is
// train_kernels.h.
//
//   Forward(pack) -> hidden, whose gradient somebody computes -> Backward(gradient) -> parameters'
//   grad
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "learner/torch/train_kernels.h"
#include "model/torch/model.h"

namespace tidemill {

class ExactPass;
struct DrawSupports;  // model/torch/draw_supports.h

// Sequences whose tokens lie end to end, some of them with the same beginning, which is there once.
struct SegmentedPack {
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;  // in its sequence, the parent's part included
  std::vector<Segment> segments;   // a parent before its children
};

// Not thread-safe. Keeps its buffers between calls, as large as the largest pack so far.
class FusedDecoder {
 public:
  // Whether this can stand in for model.Forward(): float32 on the CPU, without an adapter and
  // without experts.
  static bool Supports(const TrainableModel& model);

  // `model` must outlive it.
  // With `exact` every number of Forward is the engine's to the last bit; call WeightsChanged
  // whenever the model's parameters were changed then.
  explicit FusedDecoder(TrainableModel& model, bool exact = false);
  FusedDecoder(TrainableModel& model, const TrainKernels& kernels);
  ~FusedDecoder();

  // The last hidden states after the final norm of the tokens named in `rows` (int64, each at most
  // once), or of all: [rows, hidden]; a copy without a graph. The last layer does for the others
  // only what these see of them. What Backward needs is kept until the next Forward.
  at::Tensor Forward(const SegmentedPack& pack, const at::Tensor& rows = {});
  // Adds to the gradient of every parameter (but the head, unless it is tied, and then only what
  // passes through the embedding). Once for each Forward at most.
  void Backward(const at::Tensor& hidden_gradient);

  void WeightsChanged();
  // Null: not exact.
  const ExactPass* exact() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// As TokenLogprobs, with the logits of all rows in memory: for small vocabularies on the CPU. With
// `exact`, which is not for supports, log-probabilities are the engine's.
TokenScores FusedTokenScores(const ModelTensorsView& view, const at::Tensor& hidden,
                             const at::Tensor& targets, double temperature = 1.0,
                             const DrawSupports* supports = nullptr,
                             const ExactPass* exact = nullptr);

}  // namespace tidemill
