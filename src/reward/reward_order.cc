// The order of gradings in the reward loop: which ones wait, and what a verifier is asked about
// them. Nothing ever waits for the verifier: a grading goes as soon as there is room and it is the
// best of those that wait, with or without an estimate.
#include <algorithm>

#include "core/random.h"
#include "core/topics.h"
#include "reward/reward_loop.h"

namespace tidemill {
namespace {

// A verifier that is slow or away has this many questions and no more.
constexpr size_t kEstimatesMax = 64;

}  // namespace

GradingOrder::Answer RewardLoop::AnswerOf(const v1::ScoreRequest& request) {
  return {request.id().group(), StableHash(request.submission())};
}

// Evaluations, second looks and repetitions are not held back.
bool RewardLoop::IsOrdered(const Scoring& scoring, const Run& run) const {
  return !options_.order_by.empty() && run.need.name == "grade" && run.need.look == 1 &&
         run.tries == 0 && scoring.request.purpose() != v1::PURPOSE_EVAL &&
         scoring.request.end() == v1::EPISODE_END_SUBMITTED;
}

bool RewardLoop::HoldBack(const Asked& asked, Time now) {
  const Scoring& scoring = scorings_.at(asked.scoring);
  if (!IsOrdered(scoring, scoring.open.at(asked.run))) return false;
  order_.Add(asked.scoring, AnswerOf(scoring.request), now);
  unestimated_.push_back(asked.scoring);
  return true;
}

void RewardLoop::SendOrdered(Time now) {
  while (const auto taken = order_.Take(now, calls_.open() < options_.order_ahead)) {
    const auto it = scorings_.find(taken->key);
    if (it == scorings_.end()) continue;  // another worker's now
    const auto grade = it->second.open.find("grade");
    if (grade == it->second.open.end()) continue;
    if (taken->overdue) ++counters_.overdue;
    AskTool(it->second, grade->second, {taken->key, grade->first}, now);
  }
  counters_.waiting = order_.waiting();
  AskEstimates(now);
}

void RewardLoop::AskEstimates(Time now) {
  while (!unestimated_.empty()) {
    const uint64_t key = unestimated_.front();
    const bool waits = order_.Waits(key) && scorings_.count(key) != 0;
    if (waits && estimates_open_ >= kEstimatesMax) return;
    unestimated_.pop_front();
    if (!waits) continue;
    const v1::ScoreRequest& request = scorings_.at(key).request;
    v1::JudgeRequest question;
    question.set_judge(options_.order_by);
    question.set_prompt(request.prompt());
    question.set_submission(request.submission());
    // The key makes it another question where the same episode is scored once more.
    question.set_request_id(request.request_id() + "." + kOrderQuestion + std::to_string(key) +
                            "@" + options_.worker);
    judges_.Ask(kJudgeTopic, std::move(question), {key, kOrderQuestion}, now);
    ++estimates_open_;
  }
}

bool RewardLoop::OnEstimate(const Asked& asked, const v1::JudgeAnswer* answer) {
  if (asked.run != kOrderQuestion) return false;
  --estimates_open_;
  const auto it = scorings_.find(asked.scoring);
  if (answer == nullptr || it == scorings_.end() || answer->judgements().empty()) return true;
  if (order_.Waits(asked.scoring)) ++counters_.estimated;
  order_.Estimate(AnswerOf(it->second.request),
                  std::clamp(answer->judgements(0).value(), 0.0, 1.0));
  return true;
}

void RewardLoop::NoteExecuted(const Scoring& scoring, const v1::ToolResult& grade) {
  if (options_.order_by.empty()) return;
  const bool passed = grade.tests_total() > 0 && grade.tests_passed() == grade.tests_total();
  order_.Executed(AnswerOf(scoring.request), passed);
}

void RewardLoop::ForgetOrder() {
  order_.Clear();
  unestimated_.clear();
  estimates_open_ = 0;
}

}  // namespace tidemill
