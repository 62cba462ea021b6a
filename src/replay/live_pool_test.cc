#include "replay/live_pool.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

v1::Sample SampleOf(uint64_t session, double reward) {
  v1::Sample sample;
  v1::TrajectoryId& id = *sample.mutable_trajectory()->mutable_id();
  id.set_task("session-" + std::to_string(session));
  id.set_group(session);
  sample.mutable_trajectory()->add_turns();
  *sample.mutable_verdict()->mutable_id() = id;
  sample.mutable_verdict()->set_reward(reward);
  return sample;
}

v1::SampleRevised RevisedOf(uint64_t session, double reward) {
  v1::SampleRevised revised;
  *revised.mutable_verdict() = SampleOf(session, reward).verdict();
  return revised;
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
  EXPECT_EQ(pool.Revise(RevisedOf(1, -1)), LivePool::Put::kRevised);
  EXPECT_EQ(pool.Revise(RevisedOf(2, -1)), LivePool::Put::kKnown) << "it never came";
  const auto taken = pool.Take(1);
  EXPECT_EQ(taken[0].verdict().reward(), -1);
  EXPECT_EQ(taken[0].trajectory().turns_size(), 1);
  EXPECT_EQ(pool.Revise(RevisedOf(1, 1)), LivePool::Put::kKnown);
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

v1::Sample SampleOf(const std::string& tenant, uint64_t session) {
  v1::Sample sample = SampleOf(session, 1);
  sample.mutable_live()->set_tenant(tenant);
  return sample;
}

TEST(LivePool, NoTenantGivesMoreThanItsShare) {
  LivePool pool(100, 0.5);
  for (uint64_t session = 1; session <= 8; ++session) pool.Add(SampleOf("loud", session));
  EXPECT_EQ(pool.Available(4), 2u);
  pool.Add(SampleOf("quiet", 9));
  pool.Add(SampleOf("quiet", 10));
  EXPECT_EQ(pool.Available(4), 4u);
  std::vector<uint64_t> taken;
  for (const v1::Sample& sample : pool.Take(4)) taken.push_back(sample.trajectory().id().group());
  EXPECT_EQ(taken, (std::vector<uint64_t>{1, 2, 9, 10}));
  EXPECT_EQ(pool.Available(1), 1u) << "one of a tenant is always allowed";
}

TEST(LivePool, WhoFloodsThePoolDisplacesNobodyElse) {
  LivePool pool(4);
  pool.Add(SampleOf("quiet", 1));
  for (uint64_t session = 2; session <= 5; ++session) pool.Add(SampleOf("loud", session));
  EXPECT_EQ(pool.Overflow()->trajectory().id().group(), 2u);
  EXPECT_FALSE(pool.Overflow());
  EXPECT_EQ(pool.Take(1)[0].trajectory().id().group(), 1u);
}

}  // namespace
}  // namespace tidemill
