#include "learner/step_batch.h"

#include <algorithm>
#include <cmath>

#include "core/ids.h"
#include "learner/staleness.h"

namespace tidemill {
namespace {

void AddMetrics(StepBatch& step) {
  const double count = step.rewards.empty() ? 1.0 : static_cast<double>(step.rewards.size());
  double mean = 0, squares = 0, advantage = 0, turns = 0, trained = 0, unnormalised = 0;
  for (double reward : step.rewards) mean += reward / count;
  for (double reward : step.rewards) squares += (reward - mean) * (reward - mean) / count;
  for (const auto& of_sequence : step.advantages) {
    for (double a : of_sequence) advantage += std::abs(a);
    turns += static_cast<double>(of_sequence.size());
  }
  for (const TrainSequence& sequence : step.sequences) {
    trained += static_cast<double>(sequence.trained_tokens);
    unnormalised += static_cast<double>(sequence.unnormalised_tokens);
  }
  step.metrics["episodes"] = static_cast<double>(step.rewards.size());
  step.metrics["reward_mean"] = mean;
  step.metrics["reward_deviation"] = std::sqrt(squares);
  step.metrics["advantage_abs"] = turns > 0 ? advantage / turns : 0;
  step.metrics["response_tokens"] = trained / count;
  step.metrics["tokens"] = trained;
  if (unnormalised > 0) step.metrics["unnormalised_tokens"] = unnormalised;
  AddStalenessMetrics(MeasureStaleness(step.sequences), step.metrics);
}

constexpr double kLiveDeviationFloor = 0.1;

// A session has no group: each of its turns is compared with the mean of other sessions. Where the
// objective divides by the deviation of a group, by theirs, which few sessions may have all alike.
std::vector<double> LiveAdvantages(AdvantageKind advantage, const v1::LiveCredit& credit) {
  const bool normalized =
      advantage == AdvantageKind::kGroupNormalized || advantage == AdvantageKind::kBatchWhitened;
  const double scale = normalized ? 1 / std::max(credit.deviation(), kLiveDeviationFloor) : 1;
  std::vector<double> advantages;
  for (const double score : credit.turn_scores()) {
    advantages.push_back((score - credit.baseline()) * scale);
  }
  return advantages;
}

// Sessions are in no group.
bool IsGrouped(const v1::Sample& sample) {
  return sample.trajectory().purpose() != v1::PURPOSE_LIVE;
}

// What the program of learner.group_command says, of all samples of the step in their order.
// Without one, and of sessions: nothing.
Result<GroupAnswers> AnswersOn(const CreditConfig& credit,
                               const std::vector<const v1::Sample*>& samples,
                               const std::vector<double>& rewards) {
  GroupAnswers all;
  all.keep.assign(samples.size(), true);
  if (!credit.group) return all;
  std::vector<const v1::Sample*> grouped;
  std::vector<double> theirs;
  std::vector<size_t> places;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!IsGrouped(*samples[i])) continue;
    grouped.push_back(samples[i]);
    theirs.push_back(rewards[i]);
    places.push_back(i);
  }
  TM_ASSIGN_OR_RETURN(const GroupAnswers said, AskAboutGroups(credit.group, grouped, theirs));
  if (!said.advantages.empty()) all.advantages.assign(samples.size(), 0.0);
  for (size_t k = 0; k < places.size(); ++k) {
    all.keep[places[k]] = said.keep[k];
    if (!said.advantages.empty()) all.advantages[places[k]] = said.advantages[k];
  }
  return all;
}

// Groups are compared within, sessions with their baseline. Who is left out has nothing.
Result<std::vector<std::vector<double>>> AdvantagesOf(AdvantageKind advantage,
                                                      const CreditConfig& credit,
                                                      const std::vector<const v1::Sample*>& all,
                                                      const GroupAnswers& said) {
  std::vector<const v1::Sample*> grouped;
  std::vector<double> given;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!IsGrouped(*all[i]) || !said.keep[i]) continue;
    grouped.push_back(all[i]);
    if (!said.advantages.empty()) given.push_back(said.advantages[i]);
  }
  TM_ASSIGN_OR_RETURN(std::vector<std::vector<double>> compared,
                      AssignCredit(credit, advantage, grouped, given));
  std::vector<std::vector<double>> advantages;
  auto next = compared.begin();
  for (size_t i = 0; i < all.size(); ++i) {
    const v1::Sample* sample = all[i];
    const auto turns = static_cast<size_t>(sample->trajectory().turns_size());
    if (!IsGrouped(*sample)) {
      advantages.push_back(LiveAdvantages(advantage, sample->live()));
    } else if (said.keep[i]) {
      advantages.push_back(std::move(*next++));
    } else {
      advantages.emplace_back(turns, 0.0);
    }
    if (advantages.back().size() == turns) continue;
    return Invalid("trajectory " + TrajectoryKey::From(sample->trajectory().id()).ToString() +
                   " has not one score for each turn");
  }
  return advantages;
}

// Metrics that only sessions have.
void AddLiveMetrics(const std::vector<const v1::Sample*>& samples, StepBatch& step) {
  double live = 0, reward = 0, baseline = 0, variance = 0;
  for (const v1::Sample* sample : samples) {
    if (sample->trajectory().purpose() != v1::PURPOSE_LIVE) continue;
    ++live;
    reward += sample->verdict().reward();
    baseline += sample->live().baseline();
    variance += sample->live().deviation() * sample->live().deviation();
  }
  if (live == 0) return;
  step.metrics["live_episodes"] = live;
  step.metrics["live_reward"] = reward / live;
  step.metrics["live_baseline"] = baseline / live;
  step.metrics["live_baseline_variance"] = variance / live;
}

// Of each role of a team: how many of its episodes there are, and their mean reward.
void AddRoleMetrics(const std::vector<const v1::Sample*>& samples, StepBatch& step) {
  std::map<std::string, std::pair<double, double>> given;  // sum, count
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]->role().empty()) continue;
    auto& [sum, count] = given[samples[i]->role()];
    sum += step.rewards[i];
    ++count;
  }
  for (const auto& [role, of] : given) {
    step.metrics["role_" + role + "_reward"] = of.first / of.second;
    step.metrics["role_" + role + "_episodes"] = of.second;
  }
}

// Whoever made the batch mixed something up: the loss would be of tokens that others drew.
Status CheckPolicy(const v1::Batch& batch, const v1::Sample& sample) {
  for (const v1::Turn& turn : sample.trajectory().turns()) {
    const bool of_role = sample.role().empty() || turn.role() == sample.role();
    if (turn.policy() == batch.policy() && of_role) continue;
    return Invalid("a turn of the policy \"" + turn.policy() + "\" and the role \"" + turn.role() +
                   "\" in a batch of \"" + batch.policy() + "\" and a sample of \"" +
                   sample.role() + "\"");
  }
  return Ok();
}

// The mean value that each scorer gave, before its weight.
void AddScorerMetrics(const std::vector<const v1::Sample*>& samples, StepBatch& step) {
  std::map<std::string, std::pair<double, double>> given;  // sum, count
  for (const v1::Sample* sample : samples) {
    for (const v1::RewardPart& part : sample->verdict().parts()) {
      auto& [sum, count] = given[part.scorer()];
      sum += part.value();
      ++count;
    }
  }
  for (const auto& [scorer, of] : given) step.metrics["scorer_" + scorer] = of.first / of.second;
}

// How much the comparison of turns adds to or takes from the advantage of their episodes.
void MeasureTurnCredit(AdvantageKind advantage, const std::vector<const v1::Sample*>& samples,
                       const GroupAnswers& said, StepBatch& step) {
  std::vector<const v1::Sample*> grouped;
  std::vector<double> rewards;
  std::vector<size_t> places;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!IsGrouped(*samples[i]) || !said.keep[i]) continue;
    grouped.push_back(samples[i]);
    rewards.push_back(step.rewards[i]);
    places.push_back(i);
  }
  std::vector<double> of_episode = CompareWithinRoles(advantage, grouped, rewards);
  if (!said.advantages.empty()) {
    for (size_t k = 0; k < places.size(); ++k) of_episode[k] = said.advantages[places[k]];
  }
  double sum = 0, turns = 0;
  for (size_t k = 0; k < places.size(); ++k) {
    for (double a : step.advantages[places[k]]) sum += std::abs(a - of_episode[k]);
    turns += static_cast<double>(step.advantages[places[k]].size());
  }
  step.metrics["turn_credit"] = turns > 0 ? sum / turns : 0;
}

// A sequence for each branch of each episode, with what belongs to the episode's turns. A branch's
// rewards begin with its first turn.
void SpreadBranches(std::vector<std::vector<TrainSequence>> branches, StepBatch& step) {
  std::vector<std::vector<double>> advantages, rewards;
  for (size_t i = 0; i < branches.size(); ++i) {
    for (TrainSequence& row : branches[i]) {
      const auto own =
          std::find_if(row.turns.begin(), row.turns.end(), [](int32_t t) { return t >= 0; });
      std::vector<double> of_turns = step.turn_rewards[i];
      if (own != row.turns.end()) std::fill_n(of_turns.begin(), *own, 0.0);
      advantages.push_back(step.advantages[i]);
      rewards.push_back(std::move(of_turns));
      step.sequences.push_back(std::move(row));
    }
  }
  step.advantages = std::move(advantages);
  step.turn_rewards = std::move(rewards);
}

// The teacher's part of the advantages: of each token, how much likelier the teacher finds it than
// the policy that drew it.
void AddDistillation(const DistillConfig& distill, StepBatch& step) {
  double taught = 0, untaught = 0, clipped = 0, difference = 0, size = 0;
  for (TrainSequence& row : step.sequences) {
    row.extra.assign(row.ids.size(), 0.0);
    for (size_t i = 0; i < row.ids.size(); ++i) {
      if (row.mask[i] == 0) continue;
      if (row.taught[i] == 0) {
        ++untaught;
        if (distill.reward == 0) row.mask[i] = 0, --row.trained_tokens;
        continue;
      }
      const double gap = static_cast<double>(row.teacher[i]) - row.behaviour[i];
      const double kept = std::clamp(gap, -distill.clip, distill.clip);
      row.extra[i] = distill.coefficient * kept;
      ++taught;
      clipped += kept == gap ? 0 : 1;
      difference += gap;
      size += std::abs(kept);
    }
  }
  for (auto& of_sequence : step.advantages) {
    for (double& a : of_sequence) a *= distill.reward;
  }
  const double count = std::max(1.0, taught);
  step.metrics["taught_tokens"] = taught;
  step.metrics["untaught_tokens"] = untaught;
  step.metrics["teacher_kl"] = -difference / count;
  step.metrics["distill_abs"] = size / count;
  step.metrics["distill_clipped"] = clipped / count;
}

// Those that the program of learner.group_command leaves out are in no loss.
void LeaveOut(const GroupAnswers& said, std::vector<std::vector<TrainSequence>>& branches,
              StepBatch& step) {
  double left = 0;
  for (size_t i = 0; i < branches.size(); ++i) {
    if (said.keep[i]) continue;
    ++left;
    for (TrainSequence& row : branches[i]) {
      std::fill(row.mask.begin(), row.mask.end(), 0);
      row.trained_tokens = 0;
    }
  }
  step.metrics["left_out"] = left;
}

}  // namespace

std::vector<int32_t> StepBatch::Trainable() const {
  std::vector<int32_t> indices;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].trained_tokens > 0) indices.push_back(static_cast<int32_t>(i));
  }
  return indices;
}

Result<StepBatch> PrepareStep(const v1::Batch& batch, AdvantageKind advantage,
                              const CreditConfig& credit, const FlattenOptions& options,
                              const DistillConfig& distill) {
  StepBatch step;
  std::vector<const v1::Sample*> samples;
  std::vector<std::vector<TrainSequence>> branches;
  for (const v1::Sample& sample : batch.samples()) {
    const std::string name =
        "trajectory " + TrajectoryKey::From(sample.trajectory().id()).ToString();
    if (!sample.verdict().scored()) return Invalid(name + " has no verdict");
    if (sample.trajectory().purpose() == v1::PURPOSE_EVAL) {
      return Invalid(name + " is of an evaluation and must not be trained on");
    }
    TM_RETURN_IF_ERROR(CheckPolicy(batch, sample).WithContext(name));
    TM_ASSIGN_OR_RETURN(std::vector<TrainSequence> rows, FlattenBranches(sample, options));
    auto rewards = TurnRewards(credit, sample);
    if (!rewards.ok()) return rewards.status().WithContext(name);
    branches.push_back(std::move(rows));
    step.turn_rewards.push_back(std::move(*rewards));
    step.rewards.push_back(ShapedReward(credit, sample));
    samples.push_back(&sample);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    step.metrics["overlong_penalty"] +=
        (samples[i]->verdict().reward() - step.rewards[i]) / static_cast<double>(samples.size());
  }
  TM_ASSIGN_OR_RETURN(const GroupAnswers said, AnswersOn(credit, samples, step.rewards));
  if (credit.group) LeaveOut(said, branches, step);
  if (advantage == AdvantageKind::kVtrace) {
    if (!said.advantages.empty()) {
      return Invalid(
          "learner.group_command gives advantages, but those of vtrace are the critic's");
    }
    for (const auto& rewards : step.turn_rewards) step.advantages.emplace_back(rewards.size(), 0.0);
  } else {
    TM_ASSIGN_OR_RETURN(step.advantages, AdvantagesOf(advantage, credit, samples, said));
    MeasureTurnCredit(advantage, samples, said, step);
  }
  SpreadBranches(std::move(branches), step);
  if (distill.coefficient != 0) AddDistillation(distill, step);
  AddMetrics(step);
  AddLiveMetrics(samples, step);
  AddScorerMetrics(samples, step);
  AddRoleMetrics(samples, step);
  return step;
}

VtraceOutput SequenceVtrace(const ObjectiveConfig& config, const TrainSequence& sequence,
                            const std::vector<double>& turn_rewards,
                            std::span<const double> log_ratio, std::span<const double> values) {
  const size_t count = values.size();
  std::vector<double> rewards(count, 0.0), discounts(count, config.discount);
  std::vector<int32_t> turns;
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    if (sequence.mask[i] != 0) turns.push_back(sequence.turns[i]);
  }
  TM_CHECK(turns.size() == count && count > 0, "every trained token has its value");
  for (size_t t = 0; t < turn_rewards.size(); ++t) {
    // The last trained token of the turn or, where none is left of it, of those before it.
    size_t at = 0;
    for (size_t i = 0; i < count && turns[i] <= static_cast<int32_t>(t); ++i) at = i;
    rewards[at] += turn_rewards[t];
  }
  discounts.back() = 0;
  return ComputeVtrace({log_ratio, rewards, discounts, values, 0.0}, config.vtrace);
}

}  // namespace tidemill
