#include "learner/reward_watch.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(RewardWatch, OneBadBatchOfEightIsNoCollapse) {
  RewardWatch watch;
  for (int batch = 0; batch < 100; ++batch) {
    const double reward = batch % 10 == 9 ? 0 : 0.5;
    EXPECT_FALSE(watch.Add(8 * reward, 8).has_value()) << batch;
  }
}

TEST(RewardWatch, ALastingDropIsToldOnceAndAgainAfterARecovery) {
  RewardWatch watch;
  const auto add = [&](double reward, int batches) {
    int told = 0;
    for (int i = 0; i < batches; ++i) told += watch.Add(8 * reward, 8).has_value() ? 1 : 0;
    return told;
  };
  EXPECT_EQ(add(0.5, 40), 0);
  EXPECT_EQ(add(0.1, 60), 1);
  EXPECT_EQ(add(0.5, 40), 0);
  EXPECT_EQ(add(0.0, 40), 1);
}

TEST(RewardWatch, TheMeanIsOverEnoughEpisodes) {
  RewardWatch watch;
  std::optional<RewardWatch::Drop> drop;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(watch.Add(64, 64));
  for (int i = 0; i < 10 && !drop; ++i) drop = watch.Add(0, 64);
  ASSERT_TRUE(drop.has_value());
  EXPECT_EQ(drop->episodes, 512u);
  EXPECT_EQ(drop->best, 1);
  EXPECT_LT(drop->mean, 0.5);
}

}  // namespace
}  // namespace tidemill
