#include "run/run_progress.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

RunSnapshot Then(double seconds, uint64_t steps, uint64_t episodes = 0) {
  RunSnapshot now;
  now.seconds = seconds;
  now.counts = {{"steps", steps}, {"episodes_finished", episodes}};
  return now;
}

TEST(RunProgress, ARateBelowOneIsNotZero) {
  RunProgress progress({.steps = 10});
  for (int second = 0; second <= 60; ++second) {
    progress.Take(Then(second, 0, static_cast<uint64_t>(second / 20)));
  }
  EXPECT_NEAR(progress.Rate("episodes_finished"), 2 / 30.0, 0.02) << "of the last half minute";
  EXPECT_EQ(ShortNumber(progress.Rate("episodes_finished")).substr(0, 3), "0.0");
  EXPECT_EQ(progress.Rate("no such count"), 0);
  EXPECT_EQ(ShortNumber(0.0333), "0.03");
  EXPECT_EQ(ShortNumber(5.55), "5.5");
  EXPECT_EQ(ShortNumber(1234.4), "1234");
  EXPECT_EQ(ShortNumber(0), "0");
}

TEST(RunProgress, TheTimeLeftFollowsFromTheStepsWithoutWhatCameBeforeTheFirst) {
  RunProgress progress({.steps = 11});
  progress.Take(Then(0, 0));
  EXPECT_EQ(progress.Text(), "step 0/11") << "nothing is known yet";
  progress.Take(Then(300, 1));  // an evaluation came first
  for (uint64_t step = 2; step <= 6; ++step) {
    progress.Take(Then(300 + 60 * static_cast<double>(step - 1), step));
  }
  EXPECT_EQ(progress.Text(), "step 6/11, 5 min left");
  progress.Take(Then(630, 6));
  EXPECT_NEAR(*progress.SecondsLeft(), 270, 1) << "half a step later";
  EXPECT_NEAR(progress.Share(), 6 / 11.0, 1e-9);
  progress.Take(Then(1500, 6));
  EXPECT_NEAR(*progress.SecondsLeft(), 4 * 1200 / 6.0, 1) << "a step that lasts makes it longer";
}

TEST(RunProgress, WhereTimeEndsTheRunItsStepsDoNotSayHowFarItIs) {
  RunProgress progress({.steps = 100'000, .minutes = 10});
  progress.Take(Then(1000, 50));  // a resumed run: its clock begins anew
  progress.Take(Then(1060, 55));
  EXPECT_EQ(progress.Text(), "step 55, 9 min left");
  EXPECT_NEAR(progress.Share(), 0.1, 1e-9);
  RunProgress quick({.steps = 4, .minutes = 100});
  quick.Take(Then(0, 0)), quick.Take(Then(10, 1)), quick.Take(Then(20, 2));
  EXPECT_EQ(quick.Text(), "step 2/4, 20 s left");
}

TEST(RunProgress, TimesAreShort) {
  EXPECT_EQ(TimeText(0), "0 s");
  EXPECT_EQ(TimeText(44.2), "45 s");
  EXPECT_EQ(TimeText(600), "10 min");
  EXPECT_EQ(TimeText(3 * 3600 + 300), "3 h 5 min");
  EXPECT_EQ(TimeText(50 * 3600), "2 d 2 h");
}

}  // namespace
}  // namespace tidemill
