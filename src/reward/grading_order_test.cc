#include "reward/grading_order.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"

namespace tidemill {
namespace {

using Answer = GradingOrder::Answer;

constexpr Time kStart{};

std::vector<uint64_t> TakeAll(GradingOrder& order, Time now = kStart) {
  std::vector<uint64_t> keys;
  while (const auto taken = order.Take(now, true)) keys.push_back(taken->key);
  return keys;
}

using Keys = std::vector<uint64_t>;

TEST(GradingOrder, WithoutAVerifierTheOrderIsThatOfArrival) {
  GradingOrder order({});
  for (uint64_t key = 1; key <= 6; ++key) order.Add(key, {10 - key % 3, key}, kStart);
  order.Executed({10, 77}, true);
  EXPECT_EQ(TakeAll(order), (Keys{1, 2, 3, 4, 5, 6}));
}

TEST(GradingOrder, GroupsThatMostLikelyDifferGoFirst) {
  GradingOrder order({});
  // Group 1: all right, it seems. Group 2: the verifier cannot tell. Group 3: all wrong.
  for (uint64_t key = 1; key <= 6; ++key) order.Add(key, {(key + 1) / 2, key}, kStart);
  const double said[] = {0.95, 0.9, 0.5, 0.6, 0.1, 0.2};
  for (uint64_t key = 1; key <= 6; ++key) order.Estimate({(key + 1) / 2, key}, said[key - 1]);
  EXPECT_NEAR(order.Value(1), 1 - 0.95 * 0.9 - 0.05 * 0.1, 1e-12);
  EXPECT_EQ(TakeAll(order), (Keys{3, 4, 5, 6, 1, 2}));
}

TEST(GradingOrder, MembersWithTheSameAnswerCannotDiffer) {
  GradingOrder order({});
  for (uint64_t key = 1; key <= 3; ++key) order.Add(key, {1, 5}, kStart);
  order.Estimate({1, 5}, 0.5);
  EXPECT_DOUBLE_EQ(order.Value(1), 0);
}

TEST(GradingOrder, WhatExecutionFoundStandsAgainstEstimates) {
  GradingOrder order({});
  order.Add(1, {1, 1}, kStart), order.Add(2, {1, 2}, kStart);
  order.Executed({1, 1}, false);
  order.Estimate({1, 1}, 0.9), order.Estimate({1, 2}, 0.75);
  EXPECT_DOUBLE_EQ(order.Value(1), 0.75);
  order.Executed({1, 2}, true);
  EXPECT_DOUBLE_EQ(order.Value(1), 1);
}

TEST(GradingOrder, AGroupThatWasNotEstimatedIsAnAverageOne) {
  GradingOrder order({});
  uint64_t key = 0;
  for (uint64_t group = 1; group <= 3; ++group) {
    for (uint64_t text = 1; text <= 2; ++text) order.Add(++key, {group, text}, kStart);
  }
  order.Estimate({1, 1}, 0.99), order.Estimate({1, 2}, 0.99);
  order.Estimate({3, 1}, 0.3), order.Estimate({3, 2}, 0.01);
  EXPECT_EQ(TakeAll(order), (Keys{3, 4, 5, 6, 1, 2}));
}

TEST(GradingOrder, NoneWaitsLongerThanAllowed) {
  GradingOrder order({.wait_max = std::chrono::seconds(2)});
  order.Add(1, {1, 1}, kStart), order.Add(2, {1, 2}, kStart);
  order.Estimate({1, 1}, 1), order.Estimate({1, 2}, 1);
  uint64_t key = 2;
  Time now = kStart;
  for (int step = 0; step < 10; ++step, now += milliseconds(200)) {
    const uint64_t group = key;
    for (uint64_t text = 1; text <= 2; ++text) {
      order.Add(++key, {group, text}, now);
      order.Estimate({group, text}, 0.5);
    }
    const auto taken = order.Take(now, true);
    ASSERT_TRUE(taken);
    EXPECT_GT(taken->key, 2u) << "better ones come first, for a while";
    EXPECT_FALSE(order.Take(now, false)) << "no room, and nothing is overdue";
  }
  for (const uint64_t first : {1, 2}) {
    const auto taken = order.Take(now, false);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->key, first);
    EXPECT_TRUE(taken->overdue);
  }
}

// Whatever is added, told and taken in between: each comes out once.
TEST(GradingOrder, LosesNothingAndForgetsOldGroups) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    GradingOrder order({.wait_max = milliseconds(50), .groups_max = 8});
    std::vector<bool> out(1001);
    uint64_t added = 0, taken = 0;
    Time now = kStart;
    while (taken < 1000) {
      const Answer answer{random.Below(40), random.Below(4)};
      if (added < 1000 && random.Chance(0.6)) order.Add(++added, answer, now);
      if (random.Chance(0.3)) order.Estimate(answer, random.Uniform());
      if (random.Chance(0.3)) order.Executed(answer, random.Chance(0.5));
      now += milliseconds(random.Below(4));
      const auto next = order.Take(now, random.Chance(0.5));
      if (!next) continue;
      ASSERT_FALSE(out.at(next->key)) << "seed " << seed;
      out[next->key] = true, ++taken;
    }
    EXPECT_EQ(order.waiting(), 0u);
    EXPECT_FALSE(order.Take(now, true));
  }
}

}  // namespace
}  // namespace tidemill
