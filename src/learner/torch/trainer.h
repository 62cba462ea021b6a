// The learner's arithmetic: a batch of scored episodes in, better weights out.
//
//   v1::Batch -> sequences, advantages -> minibatches -> microbatches -> loss, gradient -> AdamW
//
// Several minibatches and epochs a step; normalised over the whole minibatch however it is cut into
// microbatches; checked for numbers that are none before anything is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/version_steps.h"
#include "learner/credit.h"
#include "learner/objective_config.h"
#include "learner/schedule.h"
#include "learner/torch/adamw.h"
#include "model/dtype.h"
#include "model/torch/model.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

class LearnerShare;
class RankGroup;
class SnapshotGate;

struct TrainerOptions {
  ObjectiveConfig objective;
  CreditConfig credit;
  LearningRateSchedule schedule;  // by step
  AdamWOptions adamw;
  double grad_clip = 1.0;  // largest norm of a gradient; 0: off
  // Bound on the KL divergence to the reference: above it the weight of the KL term doubles with
  // every step, below half of it it falls back to the objective's; 0: none
  double kl_max = 0;
  int64_t microbatch_tokens = 8192;  // the decoder runs on at once
  uint32_t minibatches = 1;          // parts of a batch with an update each
  uint32_t epochs = 1;               // times a batch is gone through
  double balance = 0;                // coefficient of the experts' balancing loss
  // After each update a router's bias of an expert that got fewer tokens than the mean grows by so
  // much, of one that got more it falls; 0: off. The model must have such biases.
  double balance_bias = 0;
  bool replay_experts = true;  // those that drew the tokens, where they are known
  bool fused = true;           // the hand-written CPU pass where it can be used
  // The engine's log-probabilities to the last bit, on a CPU, where the hand-written pass is used.
  bool exact = false;
  bool bfloat16 = false;   // multiply matrices in bfloat16 (GPU)
  bool recompute = false;  // activation checkpointing: keep the input of each layer alone
  // Operations of the longest matrix product on a GPU (1e12: 1.3 ms of an H200); longer ones are
  // cut into pieces, so that an engine on the same GPU gets its turn; 0: no bound
  double product_most = 0;
  // Multiprocessors of a GPU that are left to others (model/torch/learner_share.h); 0: none. Where
  // there are no shares the learner uses all, and the first step's report has a warning.
  int reserve_multiprocessors = 0;
  Dtype publish_dtype = Dtype::kF32;
  double spike_factor = 10;  // a gradient this many times the running median is warned of
  uint64_t seed = 0;         // of the order of sequences in minibatches
  // For tests: called before each microbatch with its number of tokens; may throw.
  std::function<void(int64_t tokens)> on_microbatch = nullptr;
};

Status ValidateTrainerOptions(const TrainerOptions& options);

struct TrainReport {
  // loss, grad_norm, lr, entropy, policy_kl, kl, clip_fraction, ess, mismatch_*, reward_mean,
  // tokens, computed_tokens, seconds, tokens_per_second, lag_*, span_*, .. (docs/objectives.md)
  std::map<std::string, double> metrics;
  std::vector<std::string> warnings;
};

// Where a trainer stands besides weights and moments.
struct TrainerProgress {
  uint64_t steps = 0;
  VersionSteps versions;
  std::vector<double> gradient_norms;
  int64_t token_budget = 0;  // less than the options', after memory ran out; 0: theirs
};

// Not thread-safe: one thread owns it (TrainerThread).
class Trainer {
 public:
  // Trains `weights`: all of them, or their adapter where they carry one. `reference` is what the
  // KL term compares with (required where the objective has one; null else). kInvalid: options that
  // do not go together, or no reference.
  static Result<std::unique_ptr<Trainer>> New(
      const std::shared_ptr<const PolicyWeights>& weights, const TrainerOptions& options,
      std::shared_ptr<const PolicyWeights> reference = nullptr);
  ~Trainer();

  // One step. Where memory does not suffice it is undone and repeated with half the token budget,
  // which stays; the report has a warning and the budget. On failure (kInvalid: a sample that does
  // not fit, named; kInternal: a loss or gradient that is no number) weights, moments and progress
  // are as before. A batch with nothing to train on is a step without an update.
  Result<TrainReport> Train(const v1::Batch& batch);

  // Steps that were taken before, and are taken again after a resume, had these budgets (by
  // v1::Batch's number); smaller ones than the trainer's are used again, from there on.
  void RepeatBudgets(std::map<uint64_t, int64_t> budgets);

  // From here on steps are taken together with the other ranks, each of which must be given the
  // same batches in the same order. Train then also fails as RankGroup's functions do.
  // `ranks` must outlive it; null: alone again.
  void Share(RankGroup* ranks);
  // The trained parameters as they are now.
  const NamedTensors& Leaves() const;

  // The weights as they are now, to be shared and never changed.
  Result<std::shared_ptr<const PolicyWeights>> Snapshot() const;
  // The same in float32 whatever is published and however they are kept, for comparing.
  Result<std::shared_ptr<const PolicyWeights>> ExactSnapshot() const;
  // Where weights are kept in two halves (learner.moments = int8 on a GPU): those of `weights`, of
  // which the trainer was made in bfloat16, to the last bit. Nothing where they are not.
  Status TakeExact(const PolicyWeights& weights);
  // From here on tokens of `version` count as drawn `step` steps into the run.
  void NotePublished(uint64_t version, uint64_t step);

  const ModelConfig& config() const;
  const TrainerOptions& options() const;
  const TrainerProgress& progress() const;
  bool lora() const;
  bool fused() const;           // whether the hand-written CPU pass is used
  int multiprocessors() const;  // of the GPU that are used, where some are reserved; 0: all

  // For checkpoints (learner/torch/checkpoint.h): the value head and the moments by name, and the
  // adapter whose tensors are trained (null: all weights are). Steps change what they share.
  NamedTensors ValueHead() const;
  NamedTensors OptimizerState() const;  // copies
  NamedTensors SharedOptimizerState() const;
  const NamedTensors& Parameters() const;  // Leaves() without the value head
  const LoraAdapter* adapter() const;
  uint64_t optimizer_steps() const;
  // Who copies these while the trainer goes on begins at this gate: steps compute their gradients
  // meanwhile, and whatever changes weights or moments waits for the copy, the destructor too.
  SnapshotGate& gate();
  // kInvalid names what does not fit; then nothing was changed.
  Status Restore(const NamedTensors& parameters, const NamedTensors& value_head,
                 const NamedTensors& optimizer, uint64_t optimizer_steps,
                 const TrainerProgress& progress);

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Trainer>> NewOnShare(
      const std::shared_ptr<const PolicyWeights>& weights, const TrainerOptions& options,
      std::shared_ptr<const PolicyWeights> reference, const LearnerShare& share);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
