#include "learner/step_figures.h"

#include "learner/staleness.h"

namespace tidemill {

void ObjectiveSums::Add(const ObjectiveSums& other) {
  tokens += other.tokens;
  ratio += other.ratio;
  clipped += other.clipped;
  weight += other.weight;
  weight_zero += other.weight_zero;
  policy_kl += other.policy_kl;
  reference_kl += other.reference_kl;
  entropy += other.entropy;
  value_error += other.value_error;
  balance += other.balance;
  experts_given += other.experts_given;
  experts_differing += other.experts_differing;
}

void ObjectiveSums::AddMetrics(const ObjectiveConfig& config,
                               std::map<std::string, double>& metrics) const {
  const double count = tokens > 0 ? tokens : 1;
  metrics["ratio"] = ratio / count;
  metrics["clip_fraction"] = clipped / count;
  metrics["correction"] = weight / count;
  metrics["correction_masked"] = weight_zero / count;
  metrics["policy_kl"] = policy_kl / count;
  metrics["entropy"] = entropy / count;
  if (config.NeedsReference()) metrics["kl"] = reference_kl / count;
  if (config.NeedsValues()) metrics["value_loss"] = 0.5 * value_error / count;
}

void AddStepMetrics(const StepFigures& figures, const ObjectiveConfig& objective,
                    const StepBatch& step, uint32_t epochs, double seconds,
                    std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : step.metrics) metrics[name] = value;
  const double updates = figures.updates == 0 ? 1.0 : static_cast<double>(figures.updates);
  metrics["loss"] = figures.loss / updates;
  metrics["grad_norm"] = figures.largest_norm;
  metrics["updates"] = static_cast<double>(figures.updates);
  metrics["computed_tokens"] = static_cast<double>(figures.computed_tokens);
  metrics["seconds"] = seconds;
  double tokens = 0;
  for (const TrainSequence& sequence : step.sequences) {
    tokens += static_cast<double>(sequence.ids.size());
  }
  metrics["sequence_tokens"] = tokens;
  metrics["tokens_per_second"] = seconds > 0 ? tokens * epochs / seconds : 0;
  figures.sums.AddMetrics(objective, metrics);
  if (figures.sums.balance > 0) metrics["balance_loss"] = figures.sums.balance / updates;
  if (figures.sums.experts_given > 0) {
    metrics["experts_mismatch"] = figures.sums.experts_differing / figures.sums.experts_given;
  }
  metrics["ess"] = EffectiveSampleSize(figures.log_ratios);
  const MismatchStats all = MeasureMismatch(figures.log_ratios);
  const MismatchStats fresh = MeasureMismatch(figures.differences);
  metrics["mismatch"] = all.mean;
  metrics["mismatch_p99"] = all.p99;
  metrics["mismatch_fresh"] = fresh.mean;
  metrics["mismatch_fresh_p99"] = fresh.p99;
}

}  // namespace tidemill
