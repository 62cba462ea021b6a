// Advantages, V-trace, staleness, schedules and presets, against values worked out by hand; the
// golden file is checked in golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "learner/advantages.h"
#include "learner/objective_config.h"
#include "learner/schedule.h"
#include "learner/staleness.h"
#include "testing/learner_samples.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Advantages, OfASetOfOneIsZeroAndOfEqualRewardsTooWhateverTheKind) {
  for (auto kind : {AdvantageKind::kGroupNormalized, AdvantageKind::kGroupCentered,
                    AdvantageKind::kLeaveOneOut, AdvantageKind::kBatchWhitened}) {
    EXPECT_THAT(CompareAmong(kind, std::vector<double>{3}), ElementsAre(0));
    EXPECT_THAT(CompareAmong(kind, std::vector<double>{3, 3, 3}), ElementsAre(0, 0, 0));
  }
}

TEST(Advantages, KeepGroupsApartHoweverTheyAreMixed) {
  const std::vector<double> rewards = {1, 10, 3, 30};
  const std::vector<uint64_t> groups = {1, 2, 1, 2};
  EXPECT_THAT(ComputeAdvantages(AdvantageKind::kGroupCentered, rewards, groups),
              ElementsAre(-1, -10, 1, 10));
  EXPECT_THAT(ComputeAdvantages(AdvantageKind::kLeaveOneOut, rewards, groups),
              ElementsAre(-2, -20, 2, 20));
}

TEST(ObjectivePreset, ListsTheKnownOnesWhenAskedForAnother) {
  const auto preset = ObjectivePreset("gpro");
  ASSERT_FALSE(preset.ok());
  EXPECT_THAT(preset.status().message(),
              HasSubstr("\"gpro\"; known are grpo, dr_grpo, dapo, gspo, cispo, rloo, reinforce++, "
                        "decoupled_ppo, tis, icepop, vtrace, distill"));
}

TEST(ObjectivePreset, AreAllValidAndCarryTheirName) {
  EXPECT_EQ(ObjectivePresetNames().size(), 12u);
  for (const std::string& name : ObjectivePresetNames()) {
    auto preset = ObjectivePreset(name);
    ASSERT_TRUE(preset.ok()) << name;
    EXPECT_EQ(preset->name, name);
    EXPECT_TRUE(ValidateObjective(*preset).ok()) << name;
    EXPECT_FALSE(preset->NeedsReference()) << name;
  }
}

TEST(SetObjectiveOption, ChangesOneChoiceAndRefusesWhatDoesNotFit) {
  ObjectiveConfig config = *ObjectivePreset("tis");
  ASSERT_TRUE(SetObjectiveOption(config, "surrogate", "cispo").ok());
  EXPECT_EQ(config.surrogate, SurrogateKind::kCispo);
  ASSERT_TRUE(SetObjectiveOption(config, "rho_cap", 2.5).ok());
  EXPECT_EQ(config.vtrace.rho_cap, 2.5);
  EXPECT_THAT(SetObjectiveOption(config, "ratio", "word").message(),
              HasSubstr("\"ratio\" must be one of token, sequence, got \"word\""));
  EXPECT_THAT(SetObjectiveOption(config, "cap", 0.0).message(), HasSubstr("a number above 0"));
  EXPECT_THAT(SetObjectiveOption(config, "cap", "big").message(), HasSubstr("got \"big\""));
  EXPECT_THAT(SetObjectiveOption(config, "clip", 0.2).message(),
              HasSubstr("unknown objective option \"clip\"; known are"));
}

TEST(ValidateObjective, RefusesChoicesThatDoNotGoTogether) {
  ObjectiveConfig config = *ObjectivePreset("tis");
  config.proximal = ProximalKind::kBehaviour;
  EXPECT_THAT(ValidateObjective(config).message(), HasSubstr("has no effect"));
  config = *ObjectivePreset("icepop");
  config.low = 6;
  EXPECT_THAT(ValidateObjective(config).message(), HasSubstr("must be below"));
  config = *ObjectivePreset("dapo");
  config.kl_coefficient = 0.1;
  EXPECT_THAT(ValidateObjective(config).message(), HasSubstr("\"kl\" is \"none\""));
}

TEST(LearningRate, RisesThenStaysOrFallsToItsFloor) {
  LearningRateSchedule schedule{.peak = 1, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 3), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1000), 1);
  schedule = {1, 4, Decay::kLinear, 14, 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 9), 0.55);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 99), 0.1);
  schedule.decay = Decay::kCosine;
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 4), 1);
  EXPECT_NEAR(LearningRateAt(schedule, 9), 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(schedule, 14), 0.1, 1e-12);
  schedule.total_steps = 4;
  EXPECT_FALSE(ValidateSchedule(schedule).ok());
  EXPECT_FALSE(ParseDecay("polynomial").ok());
}

TEST(EffectiveSampleSize, IsOneForEqualWeightsAndDoesNotOverflow) {
  EXPECT_DOUBLE_EQ(EffectiveSampleSize(std::vector<double>{1, 1, 1}), 1);
  EXPECT_NEAR(EffectiveSampleSize(std::vector<double>{2000, 0, 0, 0}), 0.25, 1e-12);
  EXPECT_EQ(EffectiveSampleSize({}), 0);
}

TEST(MeasureMismatch, GivesMeanAndTheNinetyNinthPercentileOfSizes) {
  std::vector<double> differences;
  for (int i = 1; i <= 200; ++i) differences.push_back(i % 2 == 0 ? i : -i);
  const MismatchStats stats = MeasureMismatch(differences);
  EXPECT_DOUBLE_EQ(stats.mean, 100.5);
  EXPECT_DOUBLE_EQ(stats.p99, 198);
  EXPECT_DOUBLE_EQ(stats.max, 200);
}

TEST(MeasureStaleness, CountsLagByTokenAndSpanBySequence) {
  const auto sample =
      MakeSample(1, 0, 0, {9}, {{{1, 2, 3}, {-1, -1, -1}, {{3, 1}, {5, 2}}, {}, ""}});
  v1::Sample partly = sample;
  partly.mutable_trajectory()->mutable_turns(0)->mutable_versions(0)->set_masked(true);
  const FlattenOptions options = {.lag_of = [](uint64_t version) { return 25 - version; }};
  const std::vector<TrainSequence> rows = {*Flatten(sample, options), *Flatten(partly, options)};
  const StalenessStats stats = MeasureStaleness(rows);
  EXPECT_EQ(stats.lag.count(), 5u);
  EXPECT_EQ(stats.lag.max(), 22u);
  EXPECT_EQ(stats.lag.buckets()[16], 5u);
  EXPECT_EQ(stats.span.buckets()[2], 1u);
  EXPECT_EQ(stats.span.buckets()[0], 1u);
  EXPECT_EQ(stats.masked_tokens, 1u);
  std::map<std::string, double> metrics;
  AddStalenessMetrics(stats, metrics);
  EXPECT_DOUBLE_EQ(metrics.at("lag_hist_16+"), 5);
  EXPECT_DOUBLE_EQ(metrics.at("lag_mean"), (22 + 4 * 20) / 5.0);
}

}  // namespace
}  // namespace tidemill
