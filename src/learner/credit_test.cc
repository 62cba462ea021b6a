#include "learner/credit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/learner_samples.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TurnSpec Turn(const std::string& tree_hash = "") {
  return {{1}, {-1.0f}, {{1, 1}}, {}, tree_hash};
}

std::vector<const v1::Sample*> Pointers(const std::vector<v1::Sample>& samples) {
  std::vector<const v1::Sample*> pointers;
  for (const auto& sample : samples) pointers.push_back(&sample);
  return pointers;
}

TEST(OverlongPenalty, FallsLinearlyInsideTheBuffer) {
  const OverlongShaping shaping{.max_tokens = 100, .buffer_tokens = 20, .weight = 1.0};
  EXPECT_EQ(OverlongPenalty(shaping, 80), 0);
  EXPECT_DOUBLE_EQ(OverlongPenalty(shaping, 90), -0.5);
  EXPECT_DOUBLE_EQ(OverlongPenalty(shaping, 100), -1);
  EXPECT_DOUBLE_EQ(OverlongPenalty(shaping, 101), -1);
  EXPECT_EQ(OverlongPenalty({}, 1000000), 0);
}

TEST(AssignCredit, GivesEveryTurnItsEpisodesAdvantageByDefault) {
  const std::vector<v1::Sample> samples = {MakeSample(1, 0, 1, {5}, {Turn(), Turn()}),
                                           MakeSample(1, 1, 0, {5}, {Turn()})};
  auto credit = AssignCredit({}, AdvantageKind::kGroupCentered, Pointers(samples));
  ASSERT_TRUE(credit.ok());
  EXPECT_THAT((*credit)[0], ElementsAre(0.5, 0.5));
  EXPECT_THAT((*credit)[1], ElementsAre(-0.5));
}

TEST(AssignCredit, ComparesTheEpisodesOfAGroupWithinEachRole) {
  std::vector<v1::Sample> samples;
  for (const auto& [role, reward] : {std::pair("plan", 1.0), std::pair("code", 10.0),
                                     std::pair("plan", 0.0), std::pair("code", 20.0)}) {
    samples.push_back(
        MakeSample(1, static_cast<uint32_t>(samples.size() / 2), reward, {5}, {Turn()}));
    samples.back().set_role(role);
  }
  for (const CreditKind kind : {CreditKind::kEpisode, CreditKind::kTurn}) {
    const CreditConfig config{.kind = kind, .turn_weight = 1, .discount = 1, .overlong = {}};
    const double times = kind == CreditKind::kTurn ? 2 : 1;
    auto credit = AssignCredit(config, AdvantageKind::kGroupCentered, Pointers(samples));
    ASSERT_TRUE(credit.ok());
    EXPECT_THAT((*credit)[0], ElementsAre(0.5 * times));
    EXPECT_THAT((*credit)[1], ElementsAre(-5 * times));
    EXPECT_THAT((*credit)[2], ElementsAre(-0.5 * times));
    EXPECT_THAT((*credit)[3], ElementsAre(5 * times));
  }
}

TEST(AssignCredit, ComparesReturnsOfTheSameTurnWithinTheGroup) {
  std::vector<v1::Sample> samples = {MakeSample(1, 0, 1, {5}, {Turn(), Turn()}),
                                     MakeSample(1, 1, 0, {5}, {Turn(), Turn()})};
  samples[0].mutable_verdict()->add_turn_rewards(0);
  samples[0].mutable_verdict()->add_turn_rewards(2);
  // Returns: {0 + 0.5 * 3, 3} and {0, 0}; centred: {0.75, 1.5} and {-0.75, -1.5}; episode: +-0.5.
  const CreditConfig config{
      .kind = CreditKind::kTurn, .turn_weight = 2, .discount = 0.5, .overlong = {}};
  auto credit = AssignCredit(config, AdvantageKind::kGroupCentered, Pointers(samples));
  ASSERT_TRUE(credit.ok());
  EXPECT_THAT((*credit)[0], ElementsAre(0.5 + 1.5, 0.5 + 3));
  EXPECT_THAT((*credit)[1], ElementsAre(-0.5 - 1.5, -0.5 - 3));
}

TEST(AssignCredit, ComparesTurnsOfTheGroupThatBeganInTheSameWorkspace) {
  // Members 0 and 1 reach workspace "x" after their first turn, member 2 reaches "y".
  std::vector<v1::Sample> samples = {
      MakeSample(1, 0, 1, {5}, {Turn("x"), Turn()}), MakeSample(1, 1, 0, {5}, {Turn("x"), Turn()}),
      MakeSample(1, 2, 0, {5}, {Turn("y"), Turn()}), MakeSample(2, 0, 1, {5}, {Turn("x"), Turn()})};
  const CreditConfig config{
      .kind = CreditKind::kState, .turn_weight = 1, .discount = 1, .overlong = {}};
  auto credit = AssignCredit(config, AdvantageKind::kGroupCentered, Pointers(samples));
  ASSERT_TRUE(credit.ok());
  const double third = 1.0 / 3;
  EXPECT_NEAR((*credit)[0][0], 2 * third + 2 * third, 1e-12);
  EXPECT_NEAR((*credit)[0][1], 2 * third + 0.5, 1e-12);  // against member 1 only
  EXPECT_NEAR((*credit)[1][1], -third - 0.5, 1e-12);
  EXPECT_NEAR((*credit)[2][1], -third, 1e-12);   // nobody else was there
  EXPECT_THAT((*credit)[3], ElementsAre(0, 0));  // another group's "x" does not count
}

TEST(AssignCredit, RefusesAVerdictThatDoesNotFitItsTrajectory) {
  std::vector<v1::Sample> samples = {MakeSample(4, 2, 1, {5}, {Turn(), Turn()})};
  samples[0].mutable_verdict()->add_turn_rewards(1);
  EXPECT_THAT(AssignCredit({}, AdvantageKind::kGroupCentered, Pointers(samples)).status().message(),
              HasSubstr("task/4/2#1: verdict with 1 turn rewards for 2 turns"));
}

}  // namespace
}  // namespace tidemill
