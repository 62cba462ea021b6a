// "proof": 1 where the answer is proved equal to the task's specification, 0 where an input refutes
// it. What the prover cannot decide goes to a box, as if the scorer were "tests".
#include "reward/proof_scorer.h"

#include "reward/proof_port.h"

namespace tidemill {
namespace {

class ProofScorer final : public Scorer {
 public:
  explicit ProofScorer(bool all_or_nothing) : all_or_nothing_(all_or_nothing) {}
  std::string_view name() const override { return kProofQuestion; }
  uint32_t version() const override { return 1; }

  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const override {
    switch (Solved(request, evidence)) {
      case TaskSolved::kAskLater:
        return {Need{.kind = Need::Kind::kCommand, .name = kProofQuestion}};
      case TaskSolved::kNotKnown:
        if (evidence.Tool("grade") != nullptr || !HasHiddenTests(request)) return {};
        return {Need{.kind = Need::Kind::kTool, .name = "grade"}};
      default:
        return {};
    }
  }

  bool IsAudited() const override { return true; }

  TaskSolved Solved(const v1::ScoreRequest& request, const ScoreEvidence& evidence) const override {
    if (request.end() != v1::EPISODE_END_SUBMITTED || !request.grading().has_specification()) {
      return TaskSolved::kNotKnown;
    }
    const CommandAnswer* answer = evidence.Answer(kProofQuestion);
    if (answer == nullptr) return TaskSolved::kAskLater;
    if (!answer->has_score) return TaskSolved::kNotKnown;
    return answer->score > 0 ? TaskSolved::kYes : TaskSolved::kNo;
  }

  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence& evidence) const override {
    const CommandAnswer* answer = evidence.Answer(kProofQuestion);
    const std::string said = answer == nullptr ? "no proof was asked for" : answer->comment;
    const TaskSolved solved = Solved(request, evidence);
    if (solved == TaskSolved::kYes) return MakePart(*this, 1, "proved: " + said);
    if (solved == TaskSolved::kNo) return MakePart(*this, 0, "refuted: " + said);
    const v1::ToolResult* grade = evidence.Tool("grade");
    if (grade == nullptr) return Unavailable("no result of grade");
    const uint32_t passed = grade->tests_passed(), total = grade->tests_total();
    return MakePart(
        *this, TestsValue(*grade, all_or_nothing_),
        std::to_string(passed) + " of " + std::to_string(total) + " tests; no proof: " + said);
  }

 private:
  const bool all_or_nothing_;
};

}  // namespace

Result<std::unique_ptr<Scorer>> NewProofScorer(const RewardConfig& reward) {
  return std::unique_ptr<Scorer>(std::make_unique<ProofScorer>(reward.all_or_nothing));
}

}  // namespace tidemill
