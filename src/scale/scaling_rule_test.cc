#include "scale/scaling_rule.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

using std::chrono::seconds;

Time At(int second) {
  return Time(seconds(second));
}

TEST(WorkersFor, NothingToDoNeedsNobody) {
  const LaneLoad lanes[] = {{.slots = 4}, {.slots = 4}};
  EXPECT_EQ(WorkersFor(lanes, seconds(1), milliseconds(500), 0.9), 0u);
}

TEST(WorkersFor, WhatRunsKeepsTheAskedShareOfTheSlots) {
  const LaneLoad lanes[] = {{.leased = 9, .slots = 5}};
  EXPECT_EQ(WorkersFor(lanes, seconds(1), seconds(1), 0.9), 2u);
  const LaneLoad more[] = {{.leased = 10, .slots = 5}};
  EXPECT_EQ(WorkersFor(more, seconds(1), seconds(1), 0.9), 3u);
}

TEST(WorkersFor, WhatWaitsGetsASlotWithinTheTarget) {
  // 40 calls of 100 ms through n slots take 4 s / n: for one second, four slots.
  const LaneLoad lanes[] = {{.ready = 40, .slots = 1}};
  EXPECT_EQ(WorkersFor(lanes, milliseconds(100), seconds(1), 0.9), 4u);
  EXPECT_EQ(WorkersFor(lanes, milliseconds(100), milliseconds(500), 0.9), 8u);
}

TEST(WorkersFor, MoreSlotsThanCallsHelpNobody) {
  const LaneLoad lanes[] = {{.ready = 3, .slots = 1}};
  EXPECT_EQ(WorkersFor(lanes, seconds(60), milliseconds(10), 0.9), 3u);
}

TEST(WorkersFor, TheBusierKindCounts) {
  const LaneLoad lanes[] = {{.leased = 2, .slots = 4}, {.leased = 18, .slots = 4}};
  EXPECT_EQ(WorkersFor(lanes, seconds(1), seconds(1), 0.9), 5u);
}

ScalingOptions Options() {
  return {.min = 1, .max = 10, .target_wait = seconds(1), .cool_down = seconds(60)};
}

TEST(ScalingRule, AddsAtOnceUpToTheMaximum) {
  ScalingRule rule(Options());
  const LaneLoad lanes[] = {{.ready = 5, .slots = 1}};
  EXPECT_EQ(rule.Decide(At(0), lanes, seconds(1), 1), 5u);
  const LaneLoad flood[] = {{.ready = 5000, .slots = 1}};
  EXPECT_EQ(rule.Decide(At(1), flood, seconds(1), 5), 10u);
}

TEST(ScalingRule, KeepsTheMinimumWhenNothingHappens) {
  ScalingRule rule(Options());
  const LaneLoad idle[] = {{.slots = 1}};
  EXPECT_EQ(rule.Decide(At(0), idle, seconds(1), 0), 1u);
  EXPECT_EQ(rule.Decide(At(1000), idle, seconds(1), 1), 1u);
}

TEST(ScalingRule, LetsWorkersGoOnlyWhenFewerWereEnoughForTheWholeCoolDown) {
  ScalingRule rule(Options());
  const LaneLoad busy[] = {{.leased = 6, .slots = 1}};
  const LaneLoad idle[] = {{.slots = 1}};
  EXPECT_EQ(rule.Decide(At(0), busy, seconds(1), 1), 7u);
  for (int second = 1; second <= 60; ++second) {
    EXPECT_EQ(rule.Decide(At(second), idle, seconds(1), 7), 7u) << second;
  }
  EXPECT_EQ(rule.Decide(At(61), idle, seconds(1), 7), 1u);
}

TEST(ScalingRule, AMomentOfLoadStartsTheCoolDownAnew) {
  ScalingRule rule(Options());
  const LaneLoad busy[] = {{.leased = 3, .slots = 1}};
  const LaneLoad idle[] = {{.slots = 1}};
  (void)rule.Decide(At(0), idle, seconds(1), 7);
  EXPECT_EQ(rule.Decide(At(50), busy, seconds(1), 7), 7u);
  EXPECT_EQ(rule.Decide(At(100), idle, seconds(1), 7), 5u) << "what the load at 50 s asked for";
  EXPECT_EQ(rule.Decide(At(111), idle, seconds(1), 5), 1u);
}

TEST(ScalingRule, ALoadBetweenTheTwoSharesChangesNothing) {
  // 8 of 10 slots busy: not enough to add (0.9), too much to let one of ten go (0.7).
  ScalingRule rule({.min = 1, .max = 20, .target_wait = seconds(1), .cool_down = seconds(10)});
  const LaneLoad lanes[] = {{.leased = 8, .slots = 1}};
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(rule.Decide(At(second), lanes, seconds(1), 10), 10u) << second;
  }
}

TEST(ScalingRule, GoesBelowANewMaximumAtOnce) {
  ScalingRule rule(Options());
  const LaneLoad busy[] = {{.leased = 100, .slots = 1}};
  EXPECT_EQ(rule.Decide(At(0), busy, seconds(1), 15), 10u);
}

}  // namespace
}  // namespace tidemill
