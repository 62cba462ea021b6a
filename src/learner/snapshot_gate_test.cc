#include "learner/snapshot_gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(SnapshotGate, WithoutACopyNobodyWaits) {
  VirtualClock clock;
  SnapshotGate gate;
  gate.AwaitCopy();
  gate.Begin(clock);
  EXPECT_FALSE(gate.waiting());
  clock.Advance(milliseconds(700));
  EXPECT_EQ(gate.Complete(), Duration::zero()) << "the trainer did not get there before the end";
  gate.AwaitCopy();
}

TEST(SnapshotGate, AChangeWaitsForTheCopyAndOnlyTheWaitIsCounted) {
  VirtualClock clock;
  SnapshotGate gate;
  gate.Begin(clock);
  clock.Advance(milliseconds(700));  // forward and backward
  Duration waited{};
  std::thread copying([&] {
    EXPECT_TRUE(Eventually([&] { return gate.waiting(); }));
    clock.Advance(milliseconds(40));
    waited = gate.Complete();
  });
  gate.AwaitCopy();
  EXPECT_FALSE(gate.waiting());
  copying.join();
  EXPECT_EQ(waited, milliseconds(40));
}

// The thread sanitizer finds what is not ordered by the gate.
TEST(SnapshotGate, WhatIsCopiedIsWhatWasThereAtTheBeginning) {
  RealClock clock;
  SnapshotGate gate;
  std::vector<int> state(1000, 0);
  for (int step = 0; step < 50; ++step) {
    std::vector<int> copy;
    gate.Begin(clock);
    std::thread copying([&] {
      copy = state;
      gate.Complete();
    });
    gate.AwaitCopy();
    for (int& number : state) number = step + 1;
    copying.join();
    EXPECT_EQ(copy, std::vector<int>(1000, step));
  }
}

}  // namespace
}  // namespace tidemill
