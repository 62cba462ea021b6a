#include "reward/verdict_maker.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tidemill {
namespace {

double ShareOf(const v1::ToolCall& call) {
  return call.tests_total() == 0 ? 0
                                 : static_cast<double>(call.tests_passed()) / call.tests_total();
}

Need Grading() {
  return {.kind = Need::Kind::kTool, .name = "grade"};
}

}  // namespace

std::map<std::string, Need> VerdictMaker::Needs(const OpenScore& score) const {
  std::map<std::string, Need> needs;
  // Solved tasks are counted whatever the reward is made of; in an evaluation always by their
  // tests.
  const bool cases = HasHiddenTests(score.request);
  const bool told =
      score.request.purpose() != v1::PURPOSE_EVAL && SolvedBy(score) != TaskSolved::kNotKnown;
  if (cases && !told && score.evidence.Tool("grade") == nullptr) needs.emplace("grade", Grading());
  for (const WeightedScorer& weighted : scorers_) {
    if (!WeightOf(weighted, score.request)) continue;
    if (audits_.NeedsExecution(*weighted.scorer, score)) needs.emplace("grade", Grading());
    if (audits_.Replaced(*weighted.scorer)) continue;
    for (Need& need : weighted.scorer->Needs(score.request, score.evidence))
      needs.emplace(need.kind == Need::Kind::kJudge ? "judge " + need.name : need.Key(), need);
  }
  return needs;
}

TaskSolved VerdictMaker::SolvedBy(const OpenScore& score) const {
  for (const WeightedScorer& weighted : scorers_) {
    if (!WeightOf(weighted, score.request) || audits_.Replaced(*weighted.scorer)) continue;
    const TaskSolved solved = weighted.scorer->Solved(score.request, score.evidence);
    if (solved != TaskSolved::kNotKnown) return solved;
  }
  return TaskSolved::kNotKnown;
}

v1::Verdict VerdictMaker::Make(const OpenScore& score) const {
  v1::Verdict verdict;
  verdict.set_scored(true);
  Status made = AddParts(score, verdict);
  if (made.ok()) {
    const uint32_t further_turns = std::max(score.request.turns(), 1u) - 1;
    const double discount = std::pow(options_.turn_discount, further_turns);
    verdict.set_reward(verdict.reward() * discount);
    verdict.set_correction(verdict.correction() * discount);
    for (v1::RoleReward& own : *verdict.mutable_by_role()) own.set_reward(own.reward() * discount);
    TakeTime(score, verdict);
    SetSolved(score, verdict);
    if (const v1::ToolResult* lint = score.evidence.Tool("lint"))
      *verdict.mutable_diagnostics() = lint->diagnostics();
    made = AddTurnRewards(score, verdict);
  }
  if (made.ok()) return verdict;
  v1::Verdict none;
  none.set_cause(made.message());
  return none;
}

Status VerdictMaker::AddParts(const OpenScore& score, v1::Verdict& verdict) const {
  for (const WeightedScorer& weighted : scorers_) {
    const Scorer& scorer = *weighted.scorer;
    const std::optional<double> weight = WeightOf(weighted, score.request);
    if (!weight) continue;
    Result<v1::RewardPart> part = audits_.Replaced(scorer)
                                      ? audits_.ScoreExecuted(scorer, score)
                                      : scorer.Score(score.request, score.evidence);
    if (!part.ok()) {
      return Unavailable(std::string(scorer.name()) + ": " + part.status().message());
    }
    part->set_weight(*weight);
    audits_.AddTo(scorer, score, *part);
    verdict.set_correction(verdict.correction() + part->correction() * *weight);
    verdict.set_reward(verdict.reward() + part->value() * *weight);
    *verdict.add_parts() = std::move(*part);
  }
  return AddRoles(score.request, verdict);
}

// Of each role with a turn, where a scorer says something of any. What it says of others is a
// mistake.
Status VerdictMaker::AddRoles(const v1::ScoreRequest& request, v1::Verdict& verdict) const {
  std::map<std::string, double> sums;
  for (const std::string& role : request.turn_roles()) sums[role] = 0;
  bool any = false;
  for (const v1::RewardPart& part : verdict.parts()) {
    std::map<std::string, double> own;
    for (const v1::RoleReward& one : part.by_role()) own[one.role()] = one.reward();
    for (const auto& [role, value] : own) {
      any = true;
      if (sums.empty() || sums.contains(role)) continue;
      return Unavailable(part.scorer() + ": \"by_role\" names \"" + role +
                         "\", a role without a turn in this episode");
    }
    for (auto& [role, sum] : sums) {
      const auto said = own.find(role);
      sum += part.weight() * (said == own.end() ? part.value() : said->second);
    }
  }
  if (!any) return Ok();
  for (const auto& [role, sum] : sums) {
    v1::RoleReward& own = *verdict.add_by_role();
    own.set_role(role), own.set_reward(sum);
  }
  return Ok();
}

// A part that costs: it has no say in whether the task was solved.
void VerdictMaker::TakeTime(const OpenScore& score, v1::Verdict& verdict) const {
  if (options_.time_weight <= 0) return;
  v1::RewardPart& part = *verdict.add_parts();
  part.set_scorer("time");
  part.set_scorer_version(1);
  part.set_value(score.request.time().tool_ms() / 1000);
  part.set_weight(-options_.time_weight);
  part.set_comment("seconds that the agent waited for tools");
  const double cost = part.value() * part.weight();
  verdict.set_reward(verdict.reward() + cost);
  for (v1::RoleReward& own : *verdict.mutable_by_role()) own.set_reward(own.reward() + cost);
}

void VerdictMaker::SetSolved(const OpenScore& score, v1::Verdict& verdict) const {
  if (const v1::ToolResult* grade = score.evidence.Tool("grade")) {
    verdict.set_tests_passed(grade->tests_passed());
    verdict.set_tests_total(grade->tests_total());
    verdict.set_compiled(grade->compiled());
    verdict.set_solved(verdict.tests_total() > 0 &&
                       verdict.tests_passed() == verdict.tests_total());
  } else if (const TaskSolved solved = SolvedBy(score); solved != TaskSolved::kNotKnown) {
    verdict.set_compiled(true);
    verdict.set_solved(solved == TaskSolved::kYes);
  } else if (!score.request.weights().empty()) {
    // No tests to pass: everything that earns something has to be as good as it can be.
    bool whole = false;
    for (const v1::RewardPart& part : verdict.parts()) {
      if (part.weight() <= 0) continue;
      whole = part.value() >= 1;
      if (!whole) break;
    }
    verdict.set_solved(whole);
  }
}

// A turn's gain in visible tests, and what scorers say of single turns.
Status VerdictMaker::AddTurnRewards(const OpenScore& score, v1::Verdict& verdict) const {
  double before = 0;
  for (const v1::ToolCall& call : score.request.last_calls()) {
    const double share = call.tests_total() == 0 ? before : ShareOf(call);
    verdict.add_turn_rewards(options_.turn_weight * (share - before));
    before = share;
  }
  for (const WeightedScorer& weighted : scorers_) {
    const std::optional<double> weight = WeightOf(weighted, score.request);
    if (!weight || audits_.Replaced(*weighted.scorer)) continue;
    const std::vector<double> rewards = weighted.scorer->TurnRewards(score.evidence);
    if (rewards.empty()) continue;
    if (rewards.size() != static_cast<size_t>(verdict.turn_rewards_size())) {
      return Unavailable(std::string(weighted.scorer->name()) + ": \"turn_rewards\" has " +
                         std::to_string(rewards.size()) + " numbers for " +
                         std::to_string(verdict.turn_rewards_size()) + " turns");
    }
    for (int i = 0; i < verdict.turn_rewards_size(); ++i) {
      verdict.set_turn_rewards(i,
                               verdict.turn_rewards(i) + *weight * rewards[static_cast<size_t>(i)]);
    }
  }
  return Ok();
}

}  // namespace tidemill
