#include "learner/torch/first_pass.h"

#include "model/torch/aten.h"

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

// Every rank has some of the sequences' values and none of the others': the sum is all of them.
Status SumScores(const StepBatch& batch, std::vector<std::vector<std::vector<float>>*> kinds,
                 RankGroup& ranks) {
  int64_t count = 0;
  const std::vector<int32_t> trained = batch.Trainable();
  for (int32_t index : trained) {
    count += static_cast<int64_t>(batch.sequences[static_cast<size_t>(index)].trained_tokens);
  }
  const at::Tensor flat = at::zeros({static_cast<int64_t>(kinds.size()) * count});
  const auto each = [&](auto&& visit) {
    float* at = flat.data_ptr<float>();
    for (auto* kind : kinds) {
      for (int32_t index : trained) {
        const auto s = static_cast<size_t>(index);
        visit((*kind)[s], at, batch.sequences[s].trained_tokens);
        at += batch.sequences[s].trained_tokens;
      }
    }
  };
  each([](const std::vector<float>& from, float* to, size_t) {
    std::copy(from.begin(), from.end(), to);
  });
  TM_RETURN_IF_ERROR(ranks.Sum({flat}));
  each([](std::vector<float>& to, const float* from, size_t n) { to.assign(from, from + n); });
  return Ok();
}

}  // namespace

Result<StepScores> FirstPass(const ObjectiveConfig& objective, const StepBatch& batch,
                             const Minibatch& all, const FirstPassNeeds& needs,
                             PolicyScorer& scorer) {
  StepScores scores;
  const size_t count = batch.sequences.size();
  std::vector<std::vector<float>> values(count);
  scores.proximal.resize(count);
  scores.reference.resize(count);
  scores.advantages.resize(count);
  scores.value_targets.resize(count);
  const uint32_t rank = needs.ranks == nullptr ? 0 : static_cast<uint32_t>(needs.ranks->rank());
  for (size_t i = 0; i < all.parts.size(); ++i) {
    if (all.ranks[i] != rank) continue;
    const Microbatch& part = all.parts[i];
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
  if (needs.ranks != nullptr) {
    std::vector<std::vector<std::vector<float>>*> kinds;
    if (needs.proximal) kinds.push_back(&scores.proximal);
    if (needs.reference != nullptr) kinds.push_back(&scores.reference);
    if (objective.NeedsValues()) kinds.push_back(&values);
    TM_RETURN_IF_ERROR(SumScores(batch, kinds, *needs.ranks));
  }
  if (objective.NeedsValues()) AddVtrace(objective, batch, values, scores);
  return scores;
}

}  // namespace tidemill
