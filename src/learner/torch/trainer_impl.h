// The parts of a trainer; only trainer.cc and trainer_step.cc include it.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "learner/gradient_watch.h"
#include "learner/kl_bound.h"
#include "learner/minibatch.h"
#include "learner/snapshot_gate.h"
#include "learner/step_batch.h"
#include "learner/torch/first_pass.h"
#include "learner/torch/objective.h"
#include "learner/torch/policy_scorer.h"
#include "learner/torch/rank_sums.h"
#include "learner/torch/trainer.h"
#include "model/torch/learner_share.h"

namespace tidemill {

class Trainer::Impl {
 public:
  Impl(std::unique_ptr<TrainableModel> model, const TrainerOptions& options,
       std::shared_ptr<const PolicyWeights> reference, LearnerShare share)
      : options_(options),
        share_(std::move(share)),
        scorer_(std::move(model), {.fused = options.fused,
                                   .bfloat16 = options.bfloat16,
                                   .exact = options.exact,
                                   .value_head = options.objective.NeedsValues(),
                                   .replay_experts = options.replay_experts,
                                   .recompute = options.recompute}),
        reference_(std::move(reference)),
        optimizer_(options.adamw),
        watch_(options.spike_factor),
        kl_bound_(options.kl_max, options.objective.kl_coefficient) {}
  ~Impl() { gate_.AwaitCopy(); }

  Result<TrainReport> Train(const v1::Batch& batch);
  Status Restore(const NamedTensors& parameters, const NamedTensors& value_head,
                 const NamedTensors& optimizer, uint64_t optimizer_steps,
                 const TrainerProgress& progress);

  void Share(RankGroup* ranks) { ranks_ = ranks; }
  const PolicyScorer& scorer() const { return scorer_; }
  const AdamW& optimizer() const { return optimizer_; }
  SnapshotGate& gate() { return gate_; }

  // The content of a checkpoint, to be changed. Every change takes it from here: a copy that is
  // under way is complete when it returns.
  struct Changeable {
    TrainableModel& model;
    NamedTensors& leaves;
    AdamW& optimizer;
  };
  Changeable ToChange() {
    gate_.AwaitCopy();
    scorer_.LeavesChange();
    return {scorer_.model(), scorer_.leaves(), optimizer_};
  }

  TrainerProgress& progress() { return progress_; }
  const TrainerOptions& options() const { return options_; }
  // Held by the trainer's public functions that start work on a GPU.
  const LearnerShare& share() const { return share_; }
  void RepeatBudgets(std::map<uint64_t, int64_t> budgets) { budgets_ = std::move(budgets); }

 private:
  uint64_t Updates() const { return uint64_t{options_.epochs} * options_.minibatches; }
  bool NeedsFirstPass() const {
    return options_.objective.NeedsValues() ||
           (options_.objective.proximal == ProximalKind::kRecompute && Updates() > 1);
  }
  MinibatchOptions Cut() const {
    const auto ranks = ranks_ == nullptr ? 1u : static_cast<uint32_t>(ranks_->size());
    return {options_.minibatches, options_.microbatch_tokens, options_.seed, ranks};
  }
  // One try at a step. Throws what libtorch throws; then `before_` undoes it.
  Result<TrainReport> TryStep(const v1::Batch& batch);
  // After memory ran out: half the token budget from here on. False: it cannot be less.
  bool HalveBudget(const v1::Batch& batch, const char* why);
  void TakeRecordedBudget(uint64_t step);
  void WarnOfShare();
  Result<StepScores> ScoreBefore(const StepBatch& step);
  ObjectiveInput InputOf(const MicroTensors& micro, const PolicyScores& scores,
                         const StepScores& known) const;
  Status Update(const Minibatch& minibatch, const Minibatch* following, const StepScores& known,
                bool first_epoch);
  void Compute(const Microbatch& part, const Microbatch* following, const Minibatch& whole,
               const StepScores& known, double* ratios, MinibatchSums& sums);
  MicroTensors TensorsOf(const Microbatch& part);
  uint32_t Rank() const { return ranks_ == nullptr ? 0 : static_cast<uint32_t>(ranks_->rank()); }
  Status Apply(double loss);
  void BalanceRouters();
  void FinishMetrics(const StepBatch& step, double seconds);

  // The copies that undo an unfinished step.
  struct Before {
    NamedTensors leaves;
    NamedTensors moments;
    uint64_t optimizer_steps = 0;
    std::vector<double> norms;
  };
  void Remember();
  void Undo();

  TrainerOptions options_;
  SnapshotGate gate_;  // of leaves and moments
  const LearnerShare share_;
  bool share_told_ = false;  // the warning, where there is none
  PolicyScorer scorer_;
  std::shared_ptr<const PolicyWeights> reference_;  // shared with whoever loaded it
  AdamW optimizer_;
  GradientWatch watch_;
  TrainerProgress progress_;
  const KlBound kl_bound_;
  RankGroup* ranks_ = nullptr;           // null: alone
  std::map<uint64_t, int64_t> budgets_;  // of steps that were taken before, from RepeatBudgets
  RankSums rank_sums_;

  // Of the step under way.
  const Microbatch* ahead_of_ = nullptr;  // whose tensors are in ahead_; null: nobody's
  MicroTensors ahead_;
  Before before_;
  std::vector<std::string> warnings_;  // of tries that ran out of memory
  TrainReport report_;
  ObjectiveSums sums_;
  std::vector<at::Tensor> expert_counts_;  // of the minibatch, by layer with experts
  double loss_ = 0;
  double largest_norm_ = 0;
  double norm_ = 0;
  int64_t computed_tokens_ = 0;
  uint64_t updates_ = 0;
  std::vector<double> log_ratios_;   // learner's over sampler's, before the updates
  std::vector<double> differences_;  // the same of tokens the learner's own newest version drew
};

}  // namespace tidemill
