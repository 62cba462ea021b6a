#include "live/release_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ReleaseOptions Options() {
  ReleaseOptions options;
  options.canary_share = 0.25;
  options.canary_time = std::chrono::milliseconds(1000);
  options.canary_answers = 5;
  options.gate_failures = 0;
  options.places = 4;
  return options;
}

class ReleaseBookTest : public testing::Test {
 protected:
  // A candidate that passed the gate.
  void ToCanary(uint64_t version, uint64_t step) {
    (void)book_.Published(version, step, now_);
    (void)book_.Evaluated(step, 0.5, now_);
    ASSERT_TRUE(book_.candidate().has_value());
    ASSERT_EQ(book_.candidate()->stage, ReleaseBook::Stage::kCanary);
  }
  void Answer(uint64_t version, int count, bool malformed = false) {
    for (int i = 0; i < count; ++i) {
      (void)book_.Answered({.version = version, .malformed = malformed}, now_);
    }
  }
  void ToRelease(uint64_t version, uint64_t step) {
    ToCanary(version, step);
    Answer(version, 5);
    now_ += 1000;
    (void)book_.Tick(now_);
    ASSERT_EQ(book_.released().version, version);
  }
  std::string LastEvent() const { return book_.events().back().what; }

  int64_t now_ = 1000;
  ReleaseBook book_{Options(), 1, 0, 1000};
};

TEST_F(ReleaseBookTest, ACandidateIsReleasedThroughGateAndCanary) {
  (void)book_.Evaluated(0, 0.5, now_);
  const ReleaseOrders held = book_.Published(7, 10, now_);
  ASSERT_EQ(held.hold.size(), 1u);
  EXPECT_EQ(held.hold[0].version, 7u);
  EXPECT_EQ(book_.VersionFor(3, false), 1u) << "nobody is served from it before the gate";
  EXPECT_THAT(book_.Published(8, 20, now_).hold, IsEmpty()) << "one at a time";
  (void)book_.Evaluated(20, 0.9, now_);
  EXPECT_EQ(book_.candidate()->stage, ReleaseBook::Stage::kGate) << "of another step";
  (void)book_.Evaluated(10, 0.46, now_);
  EXPECT_EQ(book_.candidate()->stage, ReleaseBook::Stage::kCanary) << "within the margin";
  now_ += 1000;
  (void)book_.Tick(now_);
  EXPECT_EQ(book_.released().version, 1u) << "too few answers";
  Answer(7, 5);
  (void)book_.Tick(now_);
  EXPECT_EQ(book_.released().version, 7u);
  EXPECT_EQ(book_.VersionFor(3, false), 7u);
  EXPECT_FALSE(book_.candidate().has_value());
}

TEST_F(ReleaseBookTest, AnEvaluationThatOursFailedNeitherPassesNorFailsTheGate) {
  (void)book_.Evaluated(0, 0.5, now_);
  (void)book_.Evaluated(0, std::nullopt, now_);
  EXPECT_EQ(book_.released().pass_rate, 0.5);
  (void)book_.Published(2, 1, now_);
  const ReleaseOrders orders = book_.Evaluated(1, std::nullopt, now_);
  EXPECT_THAT(orders.unhold, ElementsAre(2u));
  EXPECT_FALSE(book_.candidate().has_value()) << "the next one is evaluated anew";
  EXPECT_EQ(book_.released().version, 1u);
  EXPECT_EQ(book_.gate_failures(), 0u);
  EXPECT_THAT(book_.events().back().why, HasSubstr("could be scored"));
}

TEST_F(ReleaseBookTest, AFailedGateKeepsTheReleasedVersionAndSaysWhy) {
  (void)book_.Evaluated(0, 0.5, now_);
  for (uint64_t i = 1; i <= 2; ++i) {
    (void)book_.Published(i + 1, i, now_);
    const ReleaseOrders orders = book_.Evaluated(i, 0.3, now_);
    EXPECT_THAT(orders.unhold, ElementsAre(i + 1));
    EXPECT_EQ(book_.gate_failures(), i);
    EXPECT_EQ(LastEvent(), "gate failed");
    EXPECT_THAT(book_.events().back().why, HasSubstr("0.300"));
  }
  EXPECT_EQ(book_.released().version, 1u);
  ToCanary(9, 3);
  EXPECT_EQ(book_.gate_failures(), 0u);
}

TEST_F(ReleaseBookTest, TheCanaryGetsItsShareOfNewSessionsAndASessionStaysOnItsVersion) {
  for (uint64_t session = 1; session <= 100; ++session) (void)book_.VersionFor(session, false);
  ToCanary(7, 10);
  for (uint64_t session = 1; session <= 100; ++session) {
    EXPECT_EQ(book_.VersionFor(session, false), 1u) << "it began before the canary";
  }
  std::map<uint64_t, uint64_t> first;
  int canary = 0;
  for (uint64_t session = 101; session <= 4100; ++session) {
    first[session] = book_.VersionFor(session, false);
    canary += first[session] == 7 ? 1 : 0;
  }
  EXPECT_NEAR(canary, 1000, 100);
  for (const auto& [session, version] : first) EXPECT_EQ(book_.VersionFor(session, false), version);
}

TEST_F(ReleaseBookTest, AnAlarmDuringTheCanaryRollsBack) {
  ToCanary(7, 10);
  Answer(7, 30, true);
  ASSERT_TRUE(book_.candidate().has_value()) << "the alarm is off";
  ReleaseOptions strict = Options();
  strict.alarm_malformed = 0.2;
  strict.alarm_entropy = 0.1;
  ReleaseBook book(strict, 1, 0, now_);
  (void)book.Published(7, 10, now_);
  (void)book.Evaluated(10, 0.5, now_);
  for (int i = 0; i < 20; ++i) (void)book.Answered({.version = 7, .malformed = i % 3 == 0}, now_);
  EXPECT_FALSE(book.candidate().has_value());
  EXPECT_EQ(book.released().version, 1u);
  EXPECT_THAT(book.events().back().why, HasSubstr("malformed"));
  (void)book.Published(8, 11, now_);
  (void)book.Evaluated(11, 0.5, now_);
  EXPECT_THAT(book.Trained({.step = 1, .entropy = 0.05}, now_).unhold, ElementsAre(8));
  EXPECT_EQ(book.alarms().size(), 1u);
  (void)book.Trained({.step = 2, .entropy = 0.5}, now_);
  EXPECT_THAT(book.alarms(), IsEmpty());
}

TEST_F(ReleaseBookTest, ARollbackReleasesTheOldWeightsUnderANewNumber) {
  EXPECT_EQ(book_.Rollback({}, now_).status().code(), Code::kNotFound);
  ToRelease(7, 10);
  const auto orders = book_.Rollback({}, now_);
  ASSERT_TRUE(orders.ok()) << orders.status().message();
  EXPECT_TRUE(orders->reserve);
  EXPECT_EQ(book_.Rollback({}, now_).status().code(), Code::kExists);
  const ReleaseOrders hold = book_.Reserved(12, now_);
  ASSERT_EQ(hold.hold.size(), 1u);
  EXPECT_EQ(hold.hold[0].version, 1u);
  EXPECT_EQ(hold.hold[0].as, 12u);
  EXPECT_EQ(book_.released().version, 7u) << "until the engine has it";
  (void)book_.Held(12, now_);
  EXPECT_EQ(book_.released().version, 12u);
  EXPECT_EQ(book_.released().weights, 1u);
  EXPECT_EQ(book_.VersionFor(3, false), 12u);
  // And back again, under yet another number.
  ASSERT_TRUE(book_.Rollback(7, now_)->reserve);
  (void)book_.Reserved(13, now_);
  (void)book_.Held(13, now_);
  EXPECT_EQ(book_.released().weights, 7u);
}

TEST_F(ReleaseBookTest, ARollbackDuringTheCanaryOnlyDropsTheCandidate) {
  ToCanary(7, 10);
  const auto orders = book_.Rollback({}, now_);
  ASSERT_TRUE(orders.ok());
  EXPECT_THAT(orders->unhold, ElementsAre(7));
  EXPECT_FALSE(orders->reserve);
  EXPECT_EQ(book_.released().version, 1u);
}

TEST_F(ReleaseBookTest, WhatTheEngineCannotHoldIsNotTried) {
  (void)book_.Published(7, 10, now_);
  (void)book_.Refused(7, "no place", now_);
  EXPECT_FALSE(book_.candidate().has_value());
  EXPECT_THAT(book_.events().back().why, HasSubstr("no place"));
}

TEST(ReleaseBook, AfterFailedGatesTheLearnerGoesOnFromTheReleasedWeights) {
  ReleaseOptions options = Options();
  options.gate_failures = 2;
  ReleaseBook book(options, 1, 0, 0);
  (void)book.Evaluated(0, 0.9, 1);
  (void)book.Published(2, 1, 1);
  EXPECT_FALSE(book.Evaluated(1, 0.1, 1).set_back);
  (void)book.Published(3, 2, 1);
  const ReleaseOrders orders = book.Evaluated(2, 0.1, 1);
  ASSERT_TRUE(orders.set_back);
  EXPECT_EQ(*orders.set_back, 1u);
  EXPECT_THAT(book.Published(4, 3, 1).hold, IsEmpty()) << "it was trained before";
  const ReleaseOrders back = book.SetBack(5, 3, 1);
  ASSERT_EQ(back.hold.size(), 1u);
  EXPECT_EQ(book.released().version, 1u) << "until the engine has it";
  (void)book.Held(5, 1);
  EXPECT_EQ(book.released().version, 5u);
  EXPECT_EQ(book.released().weights, 1u);
  EXPECT_EQ(book.released().step, 3u) << "no further behind than the learner";
  EXPECT_EQ(book.gate_failures(), 0u);
}

TEST(ReleaseBook, ALearnerThatWaitsWithoutACandidateIsSetBackOnce) {
  ReleaseOptions options = Options();
  options.behind_max = 2;
  ReleaseBook book(options, 1, 0, 0);
  (void)book.Published(2, 2, 1);
  book.Stepped(3);
  EXPECT_FALSE(book.Tick(2).set_back) << "its candidate is tried";
  ASSERT_TRUE(book.Rollback({}, 3).ok());
  EXPECT_EQ(book.Tick(4).set_back, std::optional<uint64_t>(1));
  EXPECT_FALSE(book.Tick(5).set_back);
  book.NotSetBack("not kept", 6);
  EXPECT_FALSE(book.Tick(7).set_back) << "it would fail again";
  EXPECT_EQ(book.events().back().what, "learner not set back");
}

TEST_F(ReleaseBookTest, AnotherProcessGoesOnWithWhatWasDecidedAndForgetsFiguresOfOtherWeights) {
  ReleaseOptions options;
  options.gate_failures = 3;
  ReleaseBook before(options, 1, 10, now_);
  (void)before.Evaluated(10, 0.75, now_);
  (void)before.Published(2, 20, now_);
  (void)before.Evaluated(20, 0.25, now_);
  ASSERT_EQ(before.gate_failures(), 1u);
  const ReleaseBook same(options, 3, 10, now_, before.State());
  EXPECT_EQ(same.released().version, 3u) << "the weights it begins with are those released";
  EXPECT_EQ(same.released().pass_rate, 0.75);
  EXPECT_EQ(same.gate_failures(), 1u);
  EXPECT_EQ(same.events().size(), before.events().size() + 1);
  const ReleaseBook other(options, 3, 15, now_, before.State());
  EXPECT_FALSE(other.released().pass_rate);
  EXPECT_EQ(other.gate_failures(), 0u);
}

}  // namespace
}  // namespace tidemill
