// A step of the trainer: scores, objective, gradient, update; undone where it fails.
#include "learner/torch/trainer_impl.h"

#include "model/torch/aten.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "model/layer_plan.h"
#include "model/torch/catch.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

using at::Tensor;

constexpr int64_t kSmallestBudget = 64;

Tensor ToDevice(const std::vector<std::vector<float>>& values, const MicroTensors& micro,
                const Tensor& like) {
  return GatherBySequence(values, micro, like.device());
}

// libtorch's allocator of the host says it in words, and so does CUDA where it is not libtorch's
// allocator that finds no memory: a kernel that is loaded, a workspace of cuBLAS.
bool OutOfMemory(const std::exception& error) {
  const std::string_view what(error.what());
  const auto says = [&](const char* words) { return what.find(words) != std::string_view::npos; };
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&error) != nullptr || says("can't allocate memory") ||
         says("out of memory") || says("CUBLAS_STATUS_ALLOC_FAILED");
}

}  // namespace

Result<StepScores> Trainer::Impl::ScoreBefore(const StepBatch& step) {
  if (!NeedsFirstPass() && reference_ == nullptr) return StepScores{};
  Minibatch all;
  PackForRanks(step, step.Trainable(), Cut(), all);
  return FirstPass(options_.objective, step, all,
                   {NeedsFirstPass(), reference_.get(), options_.bfloat16, ranks_}, scorer_);
}

ObjectiveInput Trainer::Impl::InputOf(const MicroTensors& micro, const PolicyScores& scores,
                                      const StepScores& known) const {
  const ObjectiveConfig& objective = options_.objective;
  ObjectiveInput input;
  input.current = scores.logprobs;
  input.behaviour = micro.behaviour;
  input.advantages = micro.advantages;
  input.sequence = micro.sequence;
  input.sequences = static_cast<int64_t>(micro.sequences.size());
  input.entropy = scores.entropy;
  switch (objective.proximal) {
    case ProximalKind::kBehaviour:
      input.proximal = micro.behaviour;
      break;
    case ProximalKind::kRecompute:
      // With one update a step the current policy is still the one before it.
      input.proximal = NeedsFirstPass() ? ToDevice(known.proximal, micro, scores.logprobs)
                                        : scores.logprobs.detach();
      break;
    case ProximalKind::kInterpolate:
      input.proximal = InterpolateProximal(micro.behaviour, scores.logprobs, micro.lags);
      break;
  }
  if (objective.NeedsReference())
    input.reference = ToDevice(known.reference, micro, scores.logprobs);
  if (objective.NeedsValues()) {
    input.advantages = ToDevice(known.advantages, micro, scores.logprobs);
    input.values = scores.values;
    input.value_targets = ToDevice(known.value_targets, micro, scores.logprobs);
  }
  return input;
}

// Those made ahead where they are for this part.
MicroTensors Trainer::Impl::TensorsOf(const Microbatch& part) {
  if (std::exchange(ahead_of_, nullptr) == &part) return std::move(ahead_);
  return MakeMicroTensors(part, scorer_.fused(), scorer_.device());
}

// One microbatch forward and backward. `ratios`: the places of its tokens; null: not wanted.
// `following` is what comes next, or null: a GPU is still at work when it is made ready.
void Trainer::Impl::Compute(const Microbatch& part, const Microbatch* following,
                            const Minibatch& whole, const StepScores& known, double* ratios,
                            MinibatchSums& sums) {
  const MicroTensors micro = TensorsOf(part);
  if (options_.on_microbatch) {
    options_.on_microbatch(static_cast<int64_t>(micro.pack.tokens.size()));
  }
  const PolicyScores scores = scorer_.Score(micro, true);
  const ObjectiveInput input = InputOf(micro, scores, known);
  const ObjectiveLoss objective =
      ComputeObjective(options_.objective, input, {whole.tokens, whole.sequences});
  Tensor loss = objective.loss;
  if (scores.balance.defined()) {
    // Of each microbatch by itself, weighted by its share of the tokens.
    const double share =
        static_cast<double>(part.trained_tokens) / static_cast<double>(whole.tokens);
    if (options_.balance > 0) loss = loss + scores.balance * (options_.balance * share);
    expert_counts_.resize(scores.expert_counts.size());
    for (size_t i = 0; i < expert_counts_.size(); ++i) {
      at::Tensor& sum = expert_counts_[i];
      sum = sum.defined() ? sum + scores.expert_counts[i] : scores.expert_counts[i];
    }
    sums.objective.balance += scores.balance.item<double>() * share;
    sums.objective.experts_given += scores.experts_given;
    sums.objective.experts_differing += scores.experts_differing;
  }
  scorer_.Backward(loss, scores);
  if (following != nullptr) {
    ahead_ = MakeMicroTensors(*following, scorer_.fused(), scorer_.device());
    ahead_of_ = following;
  }
  sums.loss += loss.item<double>();
  sums.objective.Add(objective.sums);
  sums.computed_tokens += static_cast<double>(micro.pack.tokens.size());
  if (ratios == nullptr) return;
  const Tensor before = options_.objective.proximal == ProximalKind::kRecompute
                            ? input.proximal
                            : scores.logprobs.detach();
  const Tensor ratio = HostCopy(before - micro.behaviour, at::kDouble);
  TM_CHECK(static_cast<size_t>(ratio.size(0)) == part.trained_tokens, "a ratio for each token");
  std::copy_n(ratio.data_ptr<double>(), ratio.size(0), ratios);
}

Status Trainer::Impl::Update(const Minibatch& minibatch, const Minibatch* following,
                             const StepScores& known, bool first_epoch) {
  scorer_.ZeroGrad();
  expert_counts_.clear();
  MinibatchSums sums;
  if (first_epoch) sums.log_ratios.resize(static_cast<size_t>(minibatch.tokens));
  double* ratios = first_epoch ? sums.log_ratios.data() : nullptr;
  for (size_t i = 0; i < minibatch.parts.size(); ++i) {
    const Microbatch& part = minibatch.parts[i];
    if (minibatch.ranks[i] == Rank()) {
      const Microbatch* next = minibatch.PartOf(Rank(), i + 1);
      if (next == nullptr && following != nullptr) next = following->PartOf(Rank(), 0);
      Compute(part, next, minibatch, known, ratios, sums);
    }
    if (first_epoch) ratios += part.trained_tokens;
  }
  if (ranks_ != nullptr) {
    TM_RETURN_IF_ERROR(rank_sums_.Combine(*ranks_, scorer_.leaves(), sums));
  }
  sums_.Add(sums.objective);
  computed_tokens_ += static_cast<int64_t>(sums.computed_tokens);
  if (first_epoch) {
    log_ratios_.insert(log_ratios_.end(), sums.log_ratios.begin(), sums.log_ratios.end());
    size_t token = 0;
    for (const Microbatch& part : minibatch.parts) {
      for (size_t i = 0; i < part.ids.size(); ++i) {
        if (part.mask[i] == 0) continue;
        if (part.lags[i] == 0) differences_.push_back(sums.log_ratios[token]);
        ++token;
      }
    }
  }
  return Apply(sums.loss);
}

// Checks before anything is changed.
Status Trainer::Impl::Apply(double loss) {
  norm_ = scorer_.GradNorm();
  // Machines may add up in another order; what follows must be the same everywhere.
  if (ranks_ != nullptr) {
    TM_ASSIGN_OR_RETURN(norm_, ranks_->FromFirst(norm_));
  }
  if (!std::isfinite(loss) || !std::isfinite(norm_)) {
    return Internal("the " + std::string(std::isfinite(loss) ? "gradient" : "loss") +
                    " is not a finite number; the weights are unchanged by this step");
  }
  if (watch_.Add(norm_)) {
    report_.metrics["grad_spike"] += 1;
    report_.warnings.push_back("gradient spike: norm " + std::to_string(norm_) +
                               ", running median " + std::to_string(watch_.median()));
  }
  const double clip = options_.grad_clip;
  const double scale = clip > 0 && norm_ > clip ? clip / norm_ : 1.0;
  const Changeable changed = ToChange();
  changed.optimizer.Step(changed.leaves, LearningRateAt(options_.schedule, progress_.steps), scale);
  BalanceRouters();
  loss_ += loss;
  largest_norm_ = std::max(largest_norm_, norm_);
  ++updates_;
  return Ok();
}

// Without a gradient: an expert's bias moves by a fixed step towards the mean load.
void Trainer::Impl::BalanceRouters() {
  if (options_.balance_bias == 0 || expert_counts_.empty()) return;
  const at::NoGradGuard no_grad;
  const DecoderPlan plan = PlanDecoder(scorer_.model().config());
  const Changeable changed = ToChange();
  size_t counted = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const ExpertPlan& experts = plan.layers[i].experts;
    if (experts.count == 0) continue;
    const Tensor& count = expert_counts_[counted++];
    changed.leaves.at(RouterBiasName(static_cast<int64_t>(i), experts))
        .add_((count.mean() - count).sign().to(at::kFloat), options_.balance_bias);
  }
}

void Trainer::Impl::Remember() {
  before_ = {};
  before_.norms = watch_.Save();
  // With one update nothing has changed when it fails.
  if (Updates() == 1) return;
  before_.leaves = Clones(scorer_.leaves());
  before_.moments = optimizer_.State();
  before_.optimizer_steps = optimizer_.steps();
}

void Trainer::Impl::Undo() {
  const at::NoGradGuard no_grad;
  watch_.Restore(before_.norms);
  if (before_.leaves.empty()) return;
  const Changeable changed = ToChange();
  for (const auto& [name, value] : before_.leaves) changed.leaves.at(name).copy_(value);
  const Status restored =
      changed.optimizer.Restore(changed.leaves, before_.moments, before_.optimizer_steps);
  TM_CHECK(restored.ok(), restored.message());
}

void Trainer::Impl::FinishMetrics(const StepBatch& step, double seconds) {
  auto& metrics = report_.metrics;
  StepFigures figures{sums_,
                      loss_,
                      largest_norm_,
                      updates_,
                      computed_tokens_,
                      std::move(log_ratios_),
                      std::move(differences_)};
  AddStepMetrics(figures, options_.objective, step, options_.epochs, seconds, metrics);
  metrics["lr"] = LearningRateAt(options_.schedule, progress_.steps);
  metrics["token_budget"] = static_cast<double>(options_.microbatch_tokens);
  if (options_.kl_max > 0) metrics["kl_coefficient"] = options_.objective.kl_coefficient;
}

void Trainer::Impl::TakeRecordedBudget(uint64_t step) {
  const auto recorded = budgets_.find(step);
  if (recorded == budgets_.end() || recorded->second >= options_.microbatch_tokens) return;
  options_.microbatch_tokens = progress_.token_budget = recorded->second;
}

bool Trainer::Impl::HalveBudget(const v1::Batch& batch, const char* why) {
  // Other ranks know nothing of it, and wait for this one's share.
  if (ranks_ != nullptr || options_.microbatch_tokens / 2 < kSmallestBudget) return false;
  const int64_t had = options_.microbatch_tokens;
  options_.microbatch_tokens = progress_.token_budget = had / 2;
  warnings_.push_back(
      "step " + std::to_string(batch.step() + 1) + " ran out of memory with a token budget of " +
      std::to_string(had) + " (" + FirstLine(why) + "); repeated with " + std::to_string(had / 2) +
      ", which stays; learner.token_budget = " + std::to_string(had / 2) + " begins with it");
  return true;
}

void Trainer::Impl::WarnOfShare() {
  if (std::exchange(share_told_, true) || share_.status().ok()) return;
  warnings_.push_back(
      "learner.reserve_multiprocessors = " + std::to_string(options_.reserve_multiprocessors) +
      " has no effect: " + share_.status().message());
}

// A step that memory does not suffice for is undone and taken again in smaller parts.
Result<TrainReport> Trainer::Impl::Train(const v1::Batch& batch) {
  warnings_.clear();
  WarnOfShare();
  TakeRecordedBudget(batch.step());
  while (true) {
    try {
      Result<TrainReport> report = TryStep(batch);
      before_ = {};
      if (report.ok()) {
        report->warnings.insert(report->warnings.begin(), warnings_.begin(), warnings_.end());
      }
      return report;
    } catch (const std::exception& error) {
      ahead_of_ = nullptr;
      ahead_ = {};
      Undo();
      before_ = {};
      if (!OutOfMemory(error) || !HalveBudget(batch, error.what())) throw;
      ReleaseSpareGpuMemory();
    }
  }
}

Result<TrainReport> Trainer::Impl::TryStep(const v1::Batch& batch) {
  const auto began = std::chrono::steady_clock::now();
  ahead_of_ = nullptr;
  before_ = {};
  before_.norms = watch_.Save();
  report_ = {};
  sums_ = {};
  loss_ = largest_norm_ = norm_ = 0;
  computed_tokens_ = 0;
  updates_ = 0;
  log_ratios_.clear();
  differences_.clear();
  FlattenOptions flatten;
  flatten.lag_of = [&](uint64_t version) { return progress_.versions.Lag(version, batch.step()); };
  const ModelConfig& model = scorer_.model().config();
  flatten.vocabulary = model.vocab_size;
  flatten.choices = {static_cast<uint32_t>(PlanDecoder(model).ChoicesOfToken()),
                     model.experts.count};
  TM_ASSIGN_OR_RETURN(const StepBatch step,
                      PrepareStep(batch, options_.objective.advantage, options_.credit, flatten,
                                  options_.objective.distill));
  TM_ASSIGN_OR_RETURN(const StepScores known, ScoreBefore(step));
  Remember();
  for (uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    const std::vector<Minibatch> minibatches = CutMinibatches(step, batch.step(), epoch, Cut());
    for (size_t i = 0; i < minibatches.size(); ++i) {
      const Minibatch* following = i + 1 < minibatches.size() ? &minibatches[i + 1] : nullptr;
      const Status updated = Update(minibatches[i], following, known, epoch == 0);
      if (updated.ok()) continue;
      Undo();
      return updated.WithContext("step " + std::to_string(batch.step()));
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  FinishMetrics(step, took.count());
  double& weight = options_.objective.kl_coefficient;  // the same on every rank, as the metrics
  if (reference_ != nullptr) weight = kl_bound_.Next(weight, report_.metrics["kl"]);
  ++progress_.steps;
  progress_.gradient_norms = watch_.Save();
  return std::move(report_);
}

Status Trainer::Impl::Restore(const NamedTensors& parameters, const NamedTensors& value_head,
                              const NamedTensors& optimizer, uint64_t optimizer_steps,
                              const TrainerProgress& progress) {
  const NamedTensors head = scorer_.ValueHead();
  if (head.size() != value_head.size()) {
    return Invalid(head.empty() ? "it has a value head, which this objective does not use"
                                : "it has no value head, which this objective needs");
  }
  for (const auto& [name, leaf] : head) {
    const auto saved = value_head.find(name);
    if (saved == value_head.end() || saved->second.sizes() != leaf.sizes()) {
      return Invalid("its \"" + name + "\" is missing or has a different shape");
    }
  }
  TM_RETURN_IF_ERROR(optimizer_.CheckRestore(scorer_.leaves(), optimizer));
  const Changeable changed = ToChange();
  TM_RETURN_IF_ERROR(changed.model.Restore(parameters));
  const at::NoGradGuard no_grad;
  for (const auto& [name, leaf] : head) changed.leaves.at(name).copy_(value_head.at(name));
  TM_RETURN_IF_ERROR(changed.optimizer.Restore(changed.leaves, optimizer, optimizer_steps));
  progress_ = progress;
  if (progress.token_budget > 0) {
    options_.microbatch_tokens = std::min(options_.microbatch_tokens, progress.token_budget);
  }
  watch_.Restore(progress.gradient_norms);
  return Ok();
}

}  // namespace tidemill
