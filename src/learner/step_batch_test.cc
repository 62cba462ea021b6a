#include "learner/step_batch.h"

#include <gtest/gtest.h>

#include "learner/kl_bound.h"
#include "testing/learner_samples.h"

namespace tidemill {
namespace {

v1::Sample LiveSample(uint64_t session, double reward, std::vector<double> scores) {
  std::vector<TurnSpec> turns(scores.size(), {{1}, {-0.5f}, {{1, 1}}, {}, ""});
  v1::Sample sample = MakeSample(session, 0, reward, {1, 2}, turns);
  sample.mutable_trajectory()->set_purpose(v1::PURPOSE_LIVE);
  v1::LiveCredit& credit = *sample.mutable_live();
  credit.set_baseline(0.25);
  credit.set_deviation(0.5);
  for (const double score : scores) credit.add_turn_scores(score);
  return sample;
}

TEST(PrepareStep, SessionsAreComparedWithTheirBaselineAndGroupsWithin) {
  v1::Batch batch;
  const TurnSpec turn{{1}, {-0.5f}, {{1, 1}}, {}, ""};
  *batch.add_samples() = MakeSample(7, 0, 1, {1}, {turn});
  *batch.add_samples() = LiveSample(7, 0.5, {1, 0});
  *batch.add_samples() = MakeSample(7, 1, 0, {1}, {turn});
  const auto step = PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {});
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_DOUBLE_EQ(step->advantages[0][0], 1) << "against the other member alone";
  EXPECT_DOUBLE_EQ(step->advantages[2][0], -1);
  EXPECT_DOUBLE_EQ(step->advantages[1][0], 1 - 0.25);
  EXPECT_DOUBLE_EQ(step->advantages[1][1], 0 - 0.25);
  EXPECT_DOUBLE_EQ(step->metrics.at("live_episodes"), 1);
  EXPECT_DOUBLE_EQ(step->metrics.at("live_baseline_variance"), 0.25);
}

TEST(PrepareStep, ATurnOfAnotherPolicyIsInNoLoss) {
  v1::Batch batch;
  batch.set_policy("coder");
  const TurnSpec turn{{1}, {-0.5f}, {{1, 1}}, {}, ""};
  v1::Sample& sample = *batch.add_samples() = MakeSample(7, 0, 1, {1}, {turn, turn});
  sample.set_role("code");
  for (v1::Turn& one : *sample.mutable_trajectory()->mutable_turns()) {
    one.set_policy("coder"), one.set_role("code");
  }
  const auto right = PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {});
  ASSERT_TRUE(right.ok()) << right.status().message();
  EXPECT_DOUBLE_EQ(right->metrics.at("role_code_reward"), 1);
  sample.mutable_trajectory()->mutable_turns(1)->set_policy("planner");
  EXPECT_FALSE(PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {}).ok());
  sample.mutable_trajectory()->mutable_turns(1)->set_policy("coder");
  sample.mutable_trajectory()->mutable_turns(1)->set_role("plan");
  EXPECT_FALSE(PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {}).ok());
}

TEST(PrepareStep, EachScorersMeanIsMeasuredOverTheEpisodesThatItScored) {
  v1::Batch batch;
  const TurnSpec turn{{1}, {-0.5f}, {{1, 1}}, {}, ""};
  for (const double value : {1.0, 0.0, 0.5}) {
    v1::Sample& sample = *batch.add_samples() =
        MakeSample(7, static_cast<uint32_t>(batch.samples_size()), value, {1}, {turn});
    sample.mutable_verdict()->clear_parts();
    v1::RewardPart& tests = *sample.mutable_verdict()->add_parts();
    tests.set_scorer("tests");
    tests.set_value(value);
    tests.set_weight(3);
  }
  v1::RewardPart& lint = *batch.mutable_samples(0)->mutable_verdict()->add_parts();
  lint.set_scorer("lint");
  lint.set_value(0.25);
  const auto step = PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {});
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_DOUBLE_EQ(step->metrics.at("scorer_tests"), 0.5) << "before its weight";
  EXPECT_DOUBLE_EQ(step->metrics.at("scorer_lint"), 0.25) << "of the one episode it scored";
}

TEST(PrepareStep, WhereGroupsAreNormalizedSoAreSessionsWithAFloor) {
  v1::Batch batch;
  *batch.add_samples() = LiveSample(1, 1, {1});
  *batch.add_samples() = LiveSample(2, 1, {1});
  batch.mutable_samples(1)->mutable_live()->set_deviation(0);
  const auto step = PrepareStep(batch, AdvantageKind::kGroupNormalized, {}, {});
  ASSERT_TRUE(step.ok());
  EXPECT_DOUBLE_EQ(step->advantages[0][0], 0.75 / 0.5);
  EXPECT_DOUBLE_EQ(step->advantages[1][0], 0.75 / 0.1);
}

TEST(PrepareStep, ASessionWithoutAScoreForEachTurnIsRefused) {
  v1::Batch batch;
  *batch.add_samples() = LiveSample(1, 1, {1, 1});
  batch.mutable_samples(0)->mutable_live()->mutable_turn_scores()->RemoveLast();
  EXPECT_EQ(PrepareStep(batch, AdvantageKind::kLeaveOneOut, {}, {}).status().code(),
            Code::kInvalid);
}

TEST(KlBound, TheWeightDoublesAboveTheBoundAndFallsBackBelowHalfOfIt) {
  const KlBound bound(0.4, 0.01);
  double weight = 0.01;
  weight = bound.Next(weight, 0.5);
  weight = bound.Next(weight, 0.5);
  EXPECT_DOUBLE_EQ(weight, 0.04);
  EXPECT_DOUBLE_EQ(bound.Next(weight, 0.3), 0.04);
  weight = bound.Next(bound.Next(bound.Next(weight, 0.1), 0.1), 0.1);
  EXPECT_DOUBLE_EQ(weight, 0.01);
  EXPECT_DOUBLE_EQ(KlBound(0, 0.01).Next(0.01, 9), 0.01);
  for (int step = 0; step < 100; ++step) weight = bound.Next(weight, 9);
  EXPECT_DOUBLE_EQ(weight, 10.24) << "bounded itself";
}

}  // namespace
}  // namespace tidemill
