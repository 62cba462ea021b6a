#include "replay/live_pool.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

v1::Sample SampleOf(uint64_t session, double reward, bool whole = true) {
  v1::Sample sample;
  v1::TrajectoryId& id = *sample.mutable_trajectory()->mutable_id();
  id.set_task("session-" + std::to_string(session));
  id.set_group(session);
  if (whole) sample.mutable_trajectory()->add_turns();
  sample.mutable_verdict()->set_reward(reward);
  return sample;
}

TEST(LivePool, TheOldestIsTakenFirstAndNoneTwice) {
  LivePool pool(10);
  EXPECT_EQ(pool.Add(SampleOf(1, 1)), LivePool::Put::kNew);
  EXPECT_EQ(pool.Add(SampleOf(2, 1)), LivePool::Put::kNew);
  const auto taken = pool.Take(1);
  EXPECT_EQ(taken[0].trajectory().id().group(), 1u);
  EXPECT_EQ(pool.Add(SampleOf(1, 1)), LivePool::Put::kKnown);
  EXPECT_EQ(pool.size(), 1u);
}

TEST(LivePool, AVerdictIsRevisedInPlaceOnlyWhileItsTrajectoryWaits) {
  LivePool pool(10);
  pool.Add(SampleOf(1, 1));
  EXPECT_EQ(pool.Add(SampleOf(1, -1, false)), LivePool::Put::kRevised);
  EXPECT_EQ(pool.Add(SampleOf(2, -1, false)), LivePool::Put::kKnown) << "it never came";
  const auto taken = pool.Take(1);
  EXPECT_EQ(taken[0].verdict().reward(), -1);
  EXPECT_EQ(taken[0].trajectory().turns_size(), 1);
  EXPECT_EQ(pool.Add(SampleOf(1, 1, false)), LivePool::Put::kKnown);
}

TEST(LivePool, WhatIsTooMuchOrDroppedNeverComesBack) {
  LivePool pool(2);
  for (uint64_t session = 1; session <= 3; ++session) pool.Add(SampleOf(session, 1));
  EXPECT_EQ(pool.Overflow()->trajectory().id().group(), 1u);
  EXPECT_FALSE(pool.Overflow());
  const auto dropped =
      pool.Drop([](const v1::Sample& sample) { return sample.trajectory().id().group() == 3; });
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(pool.Add(SampleOf(3, 1)), LivePool::Put::kKnown);
  EXPECT_EQ(pool.size(), 1u);
}

}  // namespace
}  // namespace tidemill
