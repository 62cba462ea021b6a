// Runs the policy that is being trained over microbatches: log-probability, entropy and value of
// every trained token, and the gradients back into the parameters.
#pragma once

#include <memory>

#include "learner/torch/fused_decoder.h"
#include "learner/torch/micro_tensors.h"
#include "model/torch/model.h"

namespace tidemill {

// [k] each, as MicroTensors counts them.
struct PolicyScores {
  at::Tensor logprobs;
  at::Tensor entropy;
  at::Tensor values;                      // undefined without a value head
  at::Tensor balance;                     // one number: BalanceLoss; undefined without experts
  std::vector<at::Tensor> expert_counts;  // float64 [experts], by layer with experts
  double experts_given = 0, experts_differing = 0;  // as RouterNotes counts them
  at::Tensor hidden;  // where the hand-written pass takes over in Backward; undefined else
};

// Not thread-safe.
class PolicyScorer {
 public:
  struct Options {
    bool fused = true;  // where it can be
    bool bfloat16 = false;
    bool exact = false;  // the engine's numbers to the last bit, where the pass is the hand-written
    bool value_head = false;
    bool replay_experts = true;  // where those that drew the tokens are known
    bool recompute = false;  // keep the input of each layer alone; not with the hand-written pass
  };
  PolicyScorer(std::unique_ptr<TrainableModel> model, Options options);

  // Throws what libtorch throws.
  PolicyScores Score(const MicroTensors& micro, bool gradients);
  // Adds the gradient of `loss`, made from `scores`, to the leaves.
  void Backward(const at::Tensor& loss, const PolicyScores& scores);
  void ZeroGrad();
  // The √Σ g² of all leaves.
  double GradNorm() const;

  // Before the leaves are changed by anybody.
  void LeavesChange();

  bool fused() const { return fused_ != nullptr; }
  const std::string& device() const { return device_; }
  TrainableModel& model() { return *model_; }
  const TrainableModel& model() const { return *model_; }
  // The optimizer changes the model's parameters and the value head.
  NamedTensors& leaves() { return leaves_; }
  const NamedTensors& leaves() const { return leaves_; }
  // "value_head.weight", "value_head.bias", or nothing.
  NamedTensors ValueHead() const;

 private:
  std::unique_ptr<TrainableModel> model_;
  Options options_;
  std::string device_;
  std::unique_ptr<FusedDecoder> fused_;  // null: through libtorch
  NamedTensors leaves_;
};

// Log-probabilities [k] of the same tokens under other, fixed weights.
at::Tensor ScoreFixed(const PolicyWeights& weights, const Microbatch& micro, bool bfloat16);

}  // namespace tidemill
