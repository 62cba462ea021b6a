#include "reward/environment_scorer.h"

namespace tidemill {
namespace {

class EnvironmentScorer final : public Scorer {
 public:
  std::string_view name() const override { return "environment"; }
  uint32_t version() const override { return 1; }

  // An episode without a reward failed through us: never a zero.
  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence&) const override {
    if (!request.has_environment() || request.environment().parts().empty()) {
      return Unavailable("the episode has no reward of an environment");
    }
    v1::RewardPart part = MakePart(*this, 0, "");
    for (const v1::NamedReward& paid : request.environment().parts()) {
      part.set_value(part.value() + paid.value() * paid.weight());
      v1::SubScore& sub = *part.add_sub_scores();
      sub.set_name(paid.name());
      sub.set_value(paid.value());
      sub.set_weight(paid.weight());
      sub.set_player(paid.player());
    }
    return part;
  }

  TaskSolved Solved(const v1::ScoreRequest& request, const ScoreEvidence&) const override {
    if (!request.has_environment()) return TaskSolved::kNotKnown;
    double sum = 0;
    for (const v1::NamedReward& paid : request.environment().parts()) {
      sum += paid.value() * paid.weight();
    }
    return sum >= 1 ? TaskSolved::kYes : TaskSolved::kNo;
  }
};

}  // namespace

Result<std::unique_ptr<Scorer>> NewEnvironmentScorer(const RewardConfig&) {
  return std::unique_ptr<Scorer>(std::make_unique<EnvironmentScorer>());
}

}  // namespace tidemill
