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

const Lesson kTrains{.steps = true, .tokens = true}, kEvaluates{};

TEST(CheckTaught, SaysInOneSentenceWhyNothingWasLearned) {
  RunCounts counts;
  RunSnapshot last;
  TokenUse tokens;
  const auto why = [&] { return CheckTaught(counts, tokens, last, kTrains).message(); };
  EXPECT_THAT(why(), HasSubstr("no training episode"));
  EXPECT_TRUE(CheckTaught(counts, tokens, last, kEvaluates).ok()) << "an evaluation makes no steps";

  counts.episodes = counts.train = 64;
  tokens.drawn = 640;
  EXPECT_THAT(why(), HasSubstr("64 episodes finished, too few"));
  last.counts["zero_variance"] = 60;
  EXPECT_THAT(why(), HasSubstr("60 episodes of 64 in groups whose rewards are all equal"));
  EXPECT_THAT(why(), HasSubstr("partial credit")) << "and what to do";
  last.counts["untrainable"] = 61;
  tokens.untrained = {{"none of the 3 answers can be trained", 61}};
  EXPECT_THAT(why(), HasSubstr("61 episodes of 64 in groups in which the model wrote nothing that "
                               "can be trained; most frequent cause, 61 times: none of the 3"));
  counts.stale_by_cause = {{"tool unavailable: compile: no box", 3}, {"other", 1}};
  last.counts["stale"] = 62;
  EXPECT_THAT(why(), HasSubstr("most episodes are stale, 3 times: tool unavailable: compile"));
  counts.unscored = 64;
  const std::string trace = "unscorable: exit status 1: Traceback\n  line 3\nKeyError: 'x'\n";
  counts.stale_by_cause = {{trace, 64}};
  const Status none = CheckTaught(counts, tokens, last, kEvaluates);
  EXPECT_EQ(none.code(), Code::kUnavailable);
  EXPECT_EQ(none.message(),
            "none of 64 episodes could be scored; most frequent cause, 64 times: unscorable: exit "
            "status 1: Traceback .. KeyError: 'x'");
  counts.unscored = 1;
  counts.steps = 1;
  tokens.used = 10;
  EXPECT_EQ(why(), "");
}

TEST(LessonWatch, WhatWasScoredBeforeAResumeIsNoHope) {
  RunSnapshot before;
  before.counts = {{"scored", 100}, {"unscored", 7}};
  const LessonWatch watch(4, /*train=*/true, before);
  RunSnapshot now = before;
  now.counts["unscored"] = 22;
  EXPECT_FALSE(watch.Hopeless(now));
  now.counts["unscored"] = 23;
  EXPECT_TRUE(watch.Hopeless(now));
  now.counts["scored"] = 101;
  EXPECT_FALSE(watch.Hopeless(now));
}

TEST(CheckTaught, AResumedRunIsJudgedByWhatItDidSince) {
  Lesson lesson = kTrains;
  lesson.before.episodes = lesson.before.train = 40;
  lesson.before.steps = 5;
  lesson.before.stale_by_cause = {{"a box was lost", 3}};
  lesson.drawn_before = 500;
  RunCounts counts = lesson.before;
  TokenUse tokens;
  tokens.drawn = 500, tokens.used = 400;
  const auto why = [&] { return CheckTaught(counts, tokens, {}, lesson).message(); };
  EXPECT_THAT(why(), HasSubstr("no training step was made since the run was resumed: no training "
                               "episode was finished"));
  counts.episodes = counts.train = 44;
  counts.unscored = 4;
  counts.stale_by_cause["gcc is not installed"] = 1;
  EXPECT_THAT(why(), HasSubstr("none of 4 episodes could be scored; most frequent cause, 1 time: "
                               "gcc is not installed"))
      << "not the cause of before";
  counts.unscored = 0;
  tokens.untrained = {{"it ended without asking the model", 4}};
  EXPECT_THAT(why(), HasSubstr("no agent got an answer of the model in 4 episodes"));
  tokens.drawn = 501;
  counts.steps = 6;
  EXPECT_EQ(why(), "");
}

TEST(CheckTaught, StepsWithoutATokenAreNotTraining) {
  RunCounts counts;
  counts.episodes = counts.train = 18;
  counts.steps = 3;
  TokenUse tokens{.untrained = {{"the agent asked for 2 answers at once (n)", 18}}};
  tokens.answers = 36;
  EXPECT_THAT(CheckTaught(counts, tokens, {}, kTrains).message(),
              HasSubstr("3 steps made, and not one token was trained; most frequent cause, 18 "
                        "times: the agent asked for 2 answers"));
  EXPECT_TRUE(CheckTaught(counts, tokens, {}, {.steps = true}).ok()) << "frozen weights";
  EXPECT_TRUE(CheckTaught(counts, tokens, {}, kEvaluates).ok()) << "its agents worked";
}

TEST(CheckTaught, ARunInWhichNoAgentWorkedHasFailedAnEvaluationToo) {
  RunCounts counts;
  counts.episodes = counts.eval = 12;
  TokenUse tokens{.untrained = {{"it ended without asking the model: cannot run python3", 12}}};
  EXPECT_EQ(CheckTaught(counts, tokens, {}, kEvaluates).message(),
            "no agent got an answer of the model in 12 episodes; most frequent cause, 12 times: it "
            "ended without asking the model: cannot run python3");
  tokens.drawn = 1;
  EXPECT_TRUE(CheckTaught(counts, tokens, {}, kEvaluates).ok()) << "one did";
}

}  // namespace
}  // namespace tidemill
