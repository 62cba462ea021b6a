#include "reward/held_gradings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/random.h"

namespace tidemill {
namespace {

// A verifier that is slow or away has this many questions and no more.
constexpr size_t kEstimatesMax = 64;

GradingOrder::Answer AnswerOf(const v1::ScoreRequest& request) {
  return {request.id().group(), StableHash(request.submission())};
}

}  // namespace

// Evaluations, second looks and repetitions are not held back.
bool HeldGradings::Hold(uint64_t key, const OpenScore& score, const OpenNeed& need, Time now) {
  const bool first_grading = need.need.name == "grade" && need.need.look == 1 && need.tries == 0;
  const bool trains = score.request.purpose() != v1::PURPOSE_EVAL &&
                      score.request.end() == v1::EPISODE_END_SUBMITTED;
  if (options_.order_by.empty() || !first_grading || !trains) return false;
  order_.Add(key, AnswerOf(score.request), now);
  unestimated_.push_back(key);
  return true;
}

std::optional<NeedOf> HeldGradings::Next(const OpenScores& scores, Time now) {
  while (const auto taken = order_.Take(now, asking_.tools_open() < options_.order_ahead)) {
    const auto it = scores.find(taken->key);
    if (it == scores.end() || !it->second.open.contains("grade")) continue;  // another worker's now
    if (taken->overdue) ++counters_.overdue;
    return NeedOf{taken->key, "grade"};
  }
  counters_.waiting = order_.waiting();
  return std::nullopt;
}

void HeldGradings::AskEstimates(const OpenScores& scores, Time now) {
  while (!unestimated_.empty()) {
    const uint64_t key = unestimated_.front();
    const auto score = scores.find(key);
    const bool waits = order_.Waits(key) && score != scores.end();
    if (waits && estimates_open_ >= kEstimatesMax) return;
    unestimated_.pop_front();
    if (!waits) continue;
    const v1::ScoreRequest& request = score->second.request;
    v1::JudgeRequest question;
    question.set_judge(options_.order_by);
    question.set_prompt(request.prompt());
    question.set_submission(request.submission());
    // The key makes it another question where the same episode is scored once more.
    question.set_request_id(request.request_id() + "." + kEstimate + std::to_string(key) + "@" +
                            options_.worker);
    asking_.AskJudge(std::move(question), {key, kEstimate}, now);
    ++estimates_open_;
  }
}

void HeldGradings::OnEstimate(uint64_t key, const OpenScore* score, const v1::JudgeAnswer* answer) {
  --estimates_open_;
  if (answer == nullptr || score == nullptr || answer->judgements().empty()) return;
  if (order_.Waits(key)) ++counters_.estimated;
  order_.Estimate(AnswerOf(score->request), std::clamp(answer->judgements(0).value(), 0.0, 1.0));
}

void HeldGradings::OnExecuted(const OpenScore& score, const v1::ToolResult& grade) {
  if (options_.order_by.empty()) return;
  const bool passed = grade.tests_total() > 0 && grade.tests_passed() == grade.tests_total();
  order_.Executed(AnswerOf(score.request), passed);
}

void HeldGradings::Clear() {
  order_.Clear();
  unestimated_.clear();
  estimates_open_ = 0;
}

}  // namespace tidemill
