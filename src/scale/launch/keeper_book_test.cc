#include "scale/launch/keeper_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace tidemill {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int Exited(int code) {
  return code << 8;
}

constexpr size_t kRedis = 0, kLearner = 1, kTools = 2, kOtherTools = 3;

KeeperBook Fleet() {
  return KeeperBook({{.name = "redis", .role = "redis"},
                     {.name = "learner-1", .role = "learner"},
                     {.name = "tools-1", .role = "tools"},
                     {.name = "tools-2", .role = "tools"}},
                    {});
}

class KeeperBookTest : public testing::Test {
 protected:
  void StartAll() {
    for (const size_t i : book_.ToStart(now_)) book_.Started(i, static_cast<pid_t>(100 + i), now_);
  }
  std::vector<size_t> Told(int signal) {
    std::vector<size_t> told;
    for (const auto& one : book_.TakeSignals(now_)) {
      EXPECT_EQ(one.signal, signal);
      told.push_back(one.process);
    }
    return told;
  }

  Time now_ = Time(seconds(1000));
  KeeperBook book_ = Fleet();
};

TEST_F(KeeperBookTest, WhatDiesIsStartedAgainLaterEachTime) {
  StartAll();
  EXPECT_THAT(book_.ToStart(now_), IsEmpty());
  std::vector<int64_t> waits;
  for (int i = 0; i < 4; ++i) {
    now_ += seconds(1);
    book_.Ended(kTools, SIGKILL, now_);
    EXPECT_THAT(book_.ToStart(now_), IsEmpty());
    const Time due = book_.NextTime();
    waits.push_back((due - now_) / seconds(1));
    now_ = due;
    EXPECT_THAT(book_.ToStart(now_), ElementsAre(kTools));
    StartAll();
  }
  EXPECT_THAT(waits, ElementsAre(1, 2, 4, 8));
  // A long life makes up for the short ones.
  now_ += minutes(5);
  book_.Ended(kTools, SIGKILL, now_);
  EXPECT_EQ(book_.NextTime() - now_, Duration(seconds(1)));
}

TEST_F(KeeperBookTest, WhenTheLearnerIsDoneTheOthersLeaveAndRedisIsLast) {
  StartAll();
  book_.Ended(kLearner, Exited(0), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kFinishing);
  EXPECT_THAT(Told(SIGTERM), IsEmpty());
  book_.Ended(kTools, Exited(0), now_);
  EXPECT_THAT(book_.ToStart(now_ + minutes(1)), IsEmpty());
  now_ = book_.NextTime();
  EXPECT_THAT(Told(SIGTERM), ElementsAre(kOtherTools));
  EXPECT_THAT(Told(SIGTERM), IsEmpty());
  now_ = book_.NextTime();
  EXPECT_THAT(Told(SIGKILL), ElementsAre(kOtherTools));
  book_.Ended(kOtherTools, SIGKILL, now_);
  EXPECT_THAT(Told(SIGTERM), ElementsAre(kRedis));
  book_.Ended(kRedis, Exited(0), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kOver);
  EXPECT_EQ(book_.failure(), "");
}

TEST(KeeperBookOfAHost, WithoutALearnerIsOverWhenItsWorkersHaveLeftAndAtOnceWithoutAny) {
  KeptProcess one, two;
  one.name = one.role = "tools", two.name = two.role = "rollout";
  KeeperBook book({one, two}, {});
  Time now{};
  for (const size_t i : book.ToStart(now)) book.Started(i, 100 + static_cast<pid_t>(i), now);
  book.Ended(0, Exited(0), now);
  EXPECT_EQ(book.phase(), FleetPhase::kRunning);
  EXPECT_THAT(book.ToStart(now + minutes(10)), IsEmpty());
  book.Ended(1, Exited(0), now);
  EXPECT_EQ(book.phase(), FleetPhase::kOver);
  EXPECT_EQ(KeeperBook({}, {}).phase(), FleetPhase::kOver);
}

TEST_F(KeeperBookTest, AWrongConfigOfTheLearnerEndsTheFleetAndIsNamed) {
  StartAll();
  book_.Ended(kLearner, Exited(2), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kStopping);
  EXPECT_EQ(book_.failure(), "learner-1 exited with status 2");
  EXPECT_THAT(Told(SIGTERM), ElementsAre(kTools, kOtherTools));
}

TEST_F(KeeperBookTest, OneHopelessWorkerOfTwoDoesNotEndTheFleetAndBothDo) {
  StartAll();
  book_.Ended(kTools, Exited(2), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kRunning);
  EXPECT_EQ(book_.processes()[kTools].state, KeptState::kFailed);
  EXPECT_THAT(book_.ToStart(now_ + minutes(10)), IsEmpty());
  book_.Ended(kOtherTools, Exited(2), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kStopping);
  EXPECT_EQ(book_.failure(), "tools-2 exited with status 2");
}

TEST_F(KeeperBookTest, AWorkerThatDiesAtOnceEachTimeIsGivenUp) {
  StartAll();
  for (int i = 0; i < KeeperRules().short_lives_max; ++i) {
    ASSERT_EQ(book_.phase(), FleetPhase::kRunning);
    book_.Ended(kLearner, SIGSEGV, now_);
    if (book_.phase() != FleetPhase::kRunning) break;
    now_ = book_.NextTime();
    StartAll();
  }
  EXPECT_EQ(book_.failure(), "learner-1 was killed by signal 11");
}

TEST_F(KeeperBookTest, AProgramThatIsMissingIsTriedAgainAndThenGivenUp) {
  for (const size_t i : book_.ToStart(now_)) {
    if (i == kRedis) {
      book_.NotStarted(i, "No such file or directory", now_);
    } else {
      book_.Started(i, static_cast<pid_t>(100 + i), now_);
    }
  }
  for (int i = 1; i < KeeperRules().short_lives_max; ++i) {
    now_ = book_.NextTime();
    for (const size_t due : book_.ToStart(now_))
      book_.NotStarted(due, "No such file or directory", now_);
  }
  EXPECT_EQ(book_.phase(), FleetPhase::kStopping);
  EXPECT_EQ(book_.failure(), "redis could not be started: No such file or directory");
}

TEST_F(KeeperBookTest, AskedToStopItStartsNothingAndIsOverWhenAllAreGone) {
  StartAll();
  book_.Ended(kTools, SIGKILL, now_);
  book_.Stop("", now_);
  book_.Stop("again", now_);
  EXPECT_THAT(book_.ToStart(now_ + minutes(10)), IsEmpty());
  EXPECT_THAT(Told(SIGTERM), ElementsAre(kLearner, kOtherTools));
  book_.Ended(kLearner, Exited(130), now_);
  EXPECT_THAT(Told(SIGTERM), IsEmpty());
  book_.Ended(kOtherTools, Exited(0), now_);
  EXPECT_THAT(Told(SIGTERM), ElementsAre(kRedis));
  book_.Ended(kRedis, Exited(0), now_);
  EXPECT_EQ(book_.phase(), FleetPhase::kOver);
  EXPECT_EQ(book_.failure(), "");
}

}  // namespace
}  // namespace tidemill
