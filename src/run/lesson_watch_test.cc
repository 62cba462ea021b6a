#include "run/lesson_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

RunSnapshot At(uint64_t finished, uint64_t steps) {
  RunSnapshot now;
  now.counts = {{"episodes_finished", finished}, {"steps", steps}};
  return now;
}

TEST(LessonWatch, WarningsOfFruitlessEpisodesBackOffUntilAStepComes) {
  LessonWatch watch(10, /*train=*/true);
  const auto warnings = [&](uint64_t from, uint64_t to, uint64_t steps) {
    int count = 0;
    for (uint64_t i = from; i <= to; ++i) count += watch.Look(At(i, steps)).empty() ? 0 : 1;
    return count;
  };
  EXPECT_EQ(warnings(0, 79, 0), 0);
  EXPECT_EQ(warnings(80, 80, 0), 1);
  EXPECT_EQ(warnings(81, 239, 0), 0) << "twice as many as before the first";
  EXPECT_EQ(warnings(240, 240, 0), 1);
  EXPECT_EQ(warnings(241, 10'000, 0), 4);
  EXPECT_EQ(warnings(10'001, 10'081, 1), 1) << "after a step it is as quick as at first";
}

TEST(LessonWatch, AnEvaluationIsNotMeantToTeach) {
  LessonWatch watch(1, /*train=*/true);
  RunSnapshot now = At(100, 0);
  now.counts["evaluating"] = 3;
  EXPECT_EQ(watch.Look(now), "");
  EXPECT_EQ(LessonWatch(1, /*train=*/false).Look(At(100, 0)), "");
}

TEST(LessonWatch, ARunWhoseScorerAlwaysFailsIsHopelessAndOneThatScoredOnceIsNot) {
  const LessonWatch watch(4, /*train=*/true);
  RunSnapshot now;
  now.counts = {{"unscored", 15}};
  EXPECT_FALSE(watch.Hopeless(now));
  now.counts["unscored"] = 16;
  EXPECT_TRUE(watch.Hopeless(now));
  EXPECT_FALSE(LessonWatch(17, true).Hopeless(now)) << "less than a batch";
  now.counts["scored"] = 1;
  EXPECT_FALSE(watch.Hopeless(now));
}

TEST(CheckTaught, SaysInOneSentenceWhyNothingWasLearned) {
  RunCounts counts;
  RunSnapshot last;
  EXPECT_THAT(CheckTaught(counts, last, true).message(), HasSubstr("no training episode"));
  EXPECT_TRUE(CheckTaught(counts, last, false).ok()) << "an evaluation makes no steps";

  counts.episodes = counts.train = 64;
  EXPECT_THAT(CheckTaught(counts, last, true).message(),
              HasSubstr("64 episodes finished, too few"));
  last.counts["zero_variance"] = 60;
  EXPECT_THAT(CheckTaught(counts, last, true).message(),
              HasSubstr("60 episodes of 64 in groups whose rewards are all equal"));
  counts.stale_by_cause = {{"tool compile unavailable: no box", 3}, {"other", 1}};
  last.counts["stale"] = 61;
  EXPECT_THAT(CheckTaught(counts, last, true).message(),
              HasSubstr("most episodes are stale, 3 times: tool compile unavailable: no box"));
  counts.unscored = 64;
  const std::string trace = "unscorable: exit status 1: Traceback\n  line 3\nKeyError: 'x'\n";
  counts.stale_by_cause = {{trace, 64}};
  const Status none = CheckTaught(counts, last, false);
  EXPECT_EQ(none.code(), Code::kUnavailable);
  EXPECT_EQ(none.message(),
            "none of 64 episodes could be scored; most frequent cause, 64 times: unscorable: exit "
            "status 1: Traceback .. KeyError: 'x'");
  counts.unscored = 1;
  counts.steps = 1;
  EXPECT_TRUE(CheckTaught(counts, last, true).ok());
}

}  // namespace
}  // namespace tidemill
