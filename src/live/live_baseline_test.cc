#include "live/live_baseline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tidemill {
namespace {

const LiveBaseline::Class kOne{"acme", "chat"}, kOther{"acme", "code"}, kStranger{"evil", "chat"};

TEST(LiveBaseline, ASessionIsComparedWithTheOthersOfItsTenantAndClass) {
  LiveBaseline baseline(8);
  baseline.Put(kOne, 1, 1.0);
  baseline.Put(kOne, 2, 0.0);
  baseline.Put(kOne, 3, -1.0);
  baseline.Put(kOther, 4, 1.0);
  baseline.Put(kStranger, 5, 1.0);
  const LiveBaseline::Comparison compared = baseline.Without(kOne, 1);
  EXPECT_EQ(compared.others, 2u);
  EXPECT_DOUBLE_EQ(compared.mean, -0.5);
  EXPECT_NEAR(compared.deviation, std::sqrt(0.5), 1e-12);
  EXPECT_EQ(baseline.Without(kOther, 4).others, 0u);
}

TEST(LiveBaseline, ANewRewardReplacesTheOldAndTheWindowForgetsTheOldest) {
  LiveBaseline baseline(3);
  baseline.Put(kOne, 1, 1.0);
  baseline.Put(kOne, 1, -1.0);
  EXPECT_DOUBLE_EQ(baseline.Without(kOne, 9).mean, -1.0);
  for (uint64_t session = 2; session <= 4; ++session) baseline.Put(kOne, session, 1.0);
  const LiveBaseline::Comparison compared = baseline.Without(kOne, 9);
  EXPECT_EQ(compared.others, 3u);
  EXPECT_DOUBLE_EQ(compared.mean, 1.0);
}

TEST(LiveBaseline, WhatIsForgottenIsNotComparedWith) {
  LiveBaseline baseline(8);
  baseline.Put(kOne, 1, 1.0);
  baseline.Put(kOne, 2, -1.0);
  baseline.Forget(kOne, 2);
  baseline.Forget(kOther, 1);
  EXPECT_EQ(baseline.Without(kOne, 9).others, 1u);
  EXPECT_DOUBLE_EQ(baseline.Without(kOne, 9).mean, 1.0);
  baseline.Forget(kOne, 1);
  EXPECT_EQ(baseline.classes(), 0u);
}

TEST(LiveBaseline, TheVarianceIsThatWithinClasses) {
  LiveBaseline baseline(8);
  EXPECT_EQ(baseline.Variance(), 0);
  baseline.Put(kOne, 1, 1.0);
  baseline.Put(kOne, 2, -1.0);
  baseline.Put(kOther, 3, 1.0);
  baseline.Put(kOther, 4, 1.0);
  EXPECT_DOUBLE_EQ(baseline.Variance(), 1.0) << "2 and 0, of two sessions each";
}

}  // namespace
}  // namespace tidemill
