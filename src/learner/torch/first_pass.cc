#include "learner/torch/first_pass.h"

namespace tidemill {
namespace {

void AddVtrace(const ObjectiveConfig& objective, const StepBatch& batch,
               const std::vector<std::vector<float>>& values, StepScores& scores) {
  for (int32_t index : batch.Trainable()) {
    const auto s = static_cast<size_t>(index);
    const TrainSequence& sequence = batch.sequences[s];
    std::vector<double> log_ratio, value(values[s].begin(), values[s].end());
    for (size_t i = 0, k = 0; i < sequence.ids.size(); ++i) {
      if (sequence.mask[i] == 0) continue;
      log_ratio.push_back(scores.proximal[s][k++] - sequence.behaviour[i]);
    }
    const VtraceOutput out =
        SequenceVtrace(objective, sequence, batch.turn_rewards[s], log_ratio, value);
    scores.advantages[s].assign(out.advantages.begin(), out.advantages.end());
    scores.value_targets[s].assign(out.vs.begin(), out.vs.end());
  }
}

}  // namespace

StepScores FirstPass(const ObjectiveConfig& objective, const StepBatch& batch,
                     std::span<const Microbatch> parts, const FirstPassNeeds& needs,
                     PolicyScorer& scorer) {
  StepScores scores;
  const size_t count = batch.sequences.size();
  std::vector<std::vector<float>> values(count);
  scores.proximal.resize(count);
  scores.reference.resize(count);
  scores.advantages.resize(count);
  scores.value_targets.resize(count);
  for (const Microbatch& part : parts) {
    const MicroTensors micro = MakeMicroTensors(part, scorer.fused(), scorer.device());
    if (needs.proximal) {
      const PolicyScores now = scorer.Score(micro, false);
      ScatterBySequence(now.logprobs, micro, scores.proximal);
      if (now.values.defined()) ScatterBySequence(now.values, micro, values);
    }
    if (needs.reference != nullptr) {
      ScatterBySequence(ScoreFixed(*needs.reference, part, needs.bfloat16), micro,
                        scores.reference);
    }
  }
  if (objective.NeedsValues()) AddVtrace(objective, batch, values, scores);
  return scores;
}

}  // namespace tidemill
