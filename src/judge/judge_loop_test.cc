#include "judge/judge_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// A port whose answers the test gives.
class FakeJudges final : public JudgePort {
 public:
  void Submit(JudgeCall call) override { asked.push_back(std::move(call)); }
  Mailbox<JudgeDone>& events() override { return events_; }
  void Say(const std::string& text) {
    JudgeDone done;
    done.tag = asked.front().tag;
    done.reply.text = text;
    done.reply.tokens_in = 100, done.reply.tokens_out = 10;
    events_.Post(std::move(done));
    asked.pop_front();
  }
  void Fail(Status status = Unavailable("away"), Duration wait = {}) {
    events_.Post({asked.front().tag, std::move(status), {}, wait, {}});
    asked.pop_front();
  }
  std::deque<JudgeCall> asked;

 private:
  Mailbox<JudgeDone> events_{10'000};
};

constexpr const char* kGood = "{\"verdict\": \"good\"}";
constexpr const char* kBad = "{\"verdict\": \"bad\"}";

class JudgeLoopTest : public testing::Test {
 protected:
  JudgeLoopTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    keys_.name = "j", keys_.endpoint = "http://x", keys_.task = "next_state";
    keys_.retries = 1;
    keys_.price_in = 2, keys_.price_out = 10;
  }
  void Make() {
    options_.judges.insert(options_.judges.begin(), keys_);
    options_.votes = &votes_;
    loop_ = std::make_unique<JudgeLoop>(bus_, clock_, options_, port_);
    loop_->Attach(waker_);
  }
  void Ask(const std::string& text = "t", const std::string& session = "") {
    v1::JudgeRequest request;
    request.set_request_id("r" + std::to_string(++asked_)), request.set_reply_to("asker");
    request.set_judge("j"), request.set_token("the asker's"), request.set_prompt("p");
    request.set_session(session);
    v1::JudgedTurn& turn = *request.add_turns();
    turn.set_text(text), turn.set_next("n");
    ASSERT_TRUE(bus_.PublishRequest(kJudgeTopic, "asker", request.SerializeAsString()).ok());
    Step();
  }
  void Step(Duration later = {}) {
    clock_.Advance(later);
    loop_->Step(clock_.Now());
  }
  // Nothing: no answer yet.
  std::optional<v1::JudgeAnswer> Answer() {
    Step();
    const std::vector<Lease> leases = bus_.Receive("asker", 1).value();
    if (leases.empty()) return {};
    v1::JudgeAnswer answer;
    EXPECT_TRUE(answer.ParseFromString(leases[0].body));
    EXPECT_TRUE(bus_.Ack(leases[0]).ok());
    return answer;
  }

  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FakeJudges port_;
  QuietWaker waker_;
  JudgeConfig keys_;
  JudgeOptions options_;
  VoteCaches votes_;
  std::unique_ptr<JudgeLoop> loop_;
  int asked_ = 0;
};

TEST_F(JudgeLoopTest, AComparisonIsAskedForOnceAndCountsForBothMembers) {
  keys_.task = "pairwise";
  Make();
  const auto ask = [&](const std::string& own, const std::vector<std::string>& others) {
    v1::JudgeRequest request;
    request.set_request_id(own), request.set_reply_to("asker"), request.set_judge("j");
    request.set_submission(own);
    *request.mutable_others() = {others.begin(), others.end()};
    ASSERT_TRUE(bus_.PublishRequest(kJudgeTopic, "asker", request.SerializeAsString()).ok());
  };
  ask("A", {"B", "C"}), ask("B", {"A"});
  Step();
  ASSERT_EQ(port_.asked.size(), 4u) << "A with B and with C, in both orders";
  for (const char* said : {"first", "equal", "second", "first"})
    port_.Say("{\"verdict\": \"" + std::string(said) + "\"}");
  const auto a = Answer(), b = Answer();
  ASSERT_TRUE(a && b);
  ASSERT_EQ(a->judgements_size(), 2);
  EXPECT_EQ(a->judgements(0).value(), (1 + 0.5) / 2);
  EXPECT_EQ(a->judgements(1).value(), 0);
  ASSERT_EQ(b->judgements_size(), 1);
  EXPECT_EQ(b->judgements(0).value(), 1 - (1 + 0.5) / 2);
  EXPECT_EQ(loop_->counters().cached, 2u);
  EXPECT_TRUE(port_.asked.empty());
}

TEST_F(JudgeLoopTest, WhoWaitsForTheSameAnswerAsksWhenItFailed) {
  Make();
  Ask(), Ask();
  ASSERT_EQ(port_.asked.size(), 1u);
  port_.Fail();
  Step();
  ASSERT_EQ(port_.asked.size(), 1u) << "the second asks";
  port_.Say(kGood);
  ASSERT_TRUE(Answer());
  Step(std::chrono::seconds(5));
  EXPECT_TRUE(Answer()) << "by the cache";
  EXPECT_TRUE(port_.asked.empty());
}

TEST_F(JudgeLoopTest, CountsVotesAndKeepsThem) {
  keys_.votes = 3;
  Make();
  Ask();
  ASSERT_EQ(port_.asked.size(), 3u);
  port_.Say(kGood), port_.Say(kBad);
  EXPECT_FALSE(Answer());
  port_.Say(kGood);
  const auto answer = Answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->available());
  EXPECT_EQ(answer->token(), "the asker's");
  ASSERT_EQ(answer->judgements_size(), 1);
  EXPECT_EQ(answer->judgements(0).value(), 1);
  EXPECT_EQ(answer->judgements(0).turn(), 1u);
  EXPECT_GT(answer->judgements(0).spread(), 0);
  EXPECT_EQ(answer->judgements(0).votes_size(), 3);
  EXPECT_THAT(answer->judgements(0).prompt(), HasSubstr("What came next"));
  EXPECT_EQ(loop_->counters().split, 1u);
  EXPECT_EQ(loop_->counters().cost, 3u * (2 * 100 + 10 * 10));
}

TEST_F(JudgeLoopTest, AnAnswerThatDoesNotParseIsAskedAgainAndThenUnavailable) {
  Make();
  Ask();
  port_.Say("I think it was good");
  Step();
  EXPECT_TRUE(port_.asked.empty());
  Step(std::chrono::seconds(1));
  ASSERT_EQ(port_.asked.size(), 1u);
  port_.Say("{}");
  const auto answer = Answer();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->available());
  EXPECT_EQ(answer->judgements_size(), 0);
  EXPECT_THAT(answer->cause(), HasSubstr("\"verdict\" must be one of good, bad, neutral"));
  EXPECT_EQ(loop_->counters().malformed, 2u);
}

TEST_F(JudgeLoopTest, AMajorityOfValidVotesIsEnough) {
  keys_.votes = 3, keys_.retries = 0;
  Make();
  Ask();
  port_.Say("no"), port_.Say(kBad), port_.Say(kBad);
  const auto answer = Answer();
  ASSERT_TRUE(answer && answer->available());
  EXPECT_EQ(answer->judgements(0).value(), -1);
  EXPECT_EQ(answer->judgements(0).votes_size(), 3);
  Ask("other");
  port_.Say("no"), port_.Say("no"), port_.Say(kBad);
  EXPECT_FALSE(Answer()->available());
}

TEST_F(JudgeLoopTest, AWrongKeyIsNotTriedAgain) {
  Make();
  Ask();
  port_.Fail(Invalid("401: no such key"));
  const auto answer = Answer();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->available());
  EXPECT_THAT(answer->cause(), HasSubstr("no such key"));
}

TEST_F(JudgeLoopTest, AFailingEndpointIsLeftAloneAndTriedWithOneQuestion) {
  keys_.retries = 20, keys_.patience = std::chrono::hours(1);
  Make();
  for (int i = 0; i < 8; ++i) Ask("t" + std::to_string(i));
  ASSERT_EQ(port_.asked.size(), 8u);
  for (int i = 0; i < 8; ++i) port_.Fail();
  Step();
  EXPECT_EQ(loop_->counters().breaks, 1u);
  // After the pause one question goes out; when it is answered, all do.
  for (int i = 0; i < 100 && port_.asked.empty(); ++i) Step(milliseconds(100));
  Step(milliseconds(100));
  ASSERT_EQ(port_.asked.size(), 1u);
  port_.Say(kGood);
  Step(std::chrono::minutes(2));
  Step();
  EXPECT_EQ(port_.asked.size(), 7u);
}

TEST_F(JudgeLoopTest, WaitsAsLongAsItsPatienceAndThenSaysUnavailable) {
  keys_.patience = std::chrono::seconds(30);
  Make();
  Ask();
  Step(std::chrono::seconds(29));
  EXPECT_FALSE(Answer());
  Step(std::chrono::seconds(2));
  const auto answer = Answer();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->available());
  port_.Say(kGood);  // too late
  EXPECT_FALSE(Answer());
}

TEST_F(JudgeLoopTest, ALostCallIsAskedAgain) {
  keys_.timeout = std::chrono::seconds(10), keys_.patience = std::chrono::hours(1);
  Make();
  Ask();
  Step(std::chrono::seconds(21));
  Step(std::chrono::seconds(2));
  EXPECT_EQ(port_.asked.size(), 2u);
}

TEST_F(JudgeLoopTest, KeepsToConcurrencyAndToTheBudgetOfAMinute) {
  keys_.concurrency = 3, keys_.per_minute = 5, keys_.patience = std::chrono::hours(1);
  Make();
  for (int i = 0; i < 9; ++i) Ask("t" + std::to_string(i));
  EXPECT_EQ(port_.asked.size(), 3u);
  for (int i = 0; i < 3; ++i) port_.Say(kGood);
  Step();
  EXPECT_EQ(port_.asked.size(), 2u);
  port_.Say(kGood), port_.Say(kGood);
  for (int i = 0; i < 5; ++i) Step(std::chrono::seconds(10));  // keeps its leases
  EXPECT_TRUE(port_.asked.empty());
  EXPECT_EQ(loop_->counters().waiting, 4u);
  Step(std::chrono::seconds(11));
  EXPECT_EQ(port_.asked.size(), 3u);
}

TEST_F(JudgeLoopTest, RespectsHowLongTheEndpointWantsToBeLeftAlone) {
  keys_.patience = std::chrono::hours(1);
  Make();
  Ask();
  port_.Fail(Unavailable("429"), std::chrono::seconds(20));
  Step(), Step(std::chrono::seconds(15));
  EXPECT_TRUE(port_.asked.empty());
  Step(std::chrono::seconds(6));
  EXPECT_EQ(port_.asked.size(), 1u);
}

TEST_F(JudgeLoopTest, TheSameQuestionIsPaidForOnceAndForgottenWithItsSession) {
  Make();
  Ask("t", "s1");
  port_.Say(kGood);
  ASSERT_TRUE(Answer());
  Ask("t", "s2");
  EXPECT_TRUE(port_.asked.empty());
  ASSERT_TRUE(Answer());
  EXPECT_EQ(loop_->counters().cached, 1u);
  EXPECT_EQ(votes_.EraseSession("s2"), 1u);
  EXPECT_EQ(votes_.EraseSession("s1"), 0u);
  Ask("t", "s3");
  EXPECT_EQ(port_.asked.size(), 1u);
}

TEST_F(JudgeLoopTest, WhatIsJudgedWhenItsSessionIsDeletedIsNotKept) {
  Make();
  Ask("t", "s1");
  votes_.EraseSession("s1");
  port_.Say(kGood);
  ASSERT_TRUE(Answer());
  Ask("t");
  EXPECT_EQ(port_.asked.size(), 1u);
}

TEST_F(JudgeLoopTest, ASecondJudgeDecidesWhereTheVotesSplit) {
  keys_.votes = 3, keys_.second = "strong";
  JudgeConfig strong = keys_;
  strong.name = "strong", strong.votes = 1, strong.second = "", strong.retries = 0;
  options_.judges = {strong};
  Make();
  Ask();
  port_.Say(kGood), port_.Say(kGood), port_.Say(kBad);
  Step();
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_EQ(port_.asked[0].judge, "strong");
  port_.Say(kBad);
  auto answer = Answer();
  ASSERT_TRUE(answer && answer->available());
  EXPECT_EQ(answer->judgements(0).value(), -1);
  EXPECT_EQ(answer->judgements(0).votes_size(), 4);
  EXPECT_EQ(answer->judgements(0).judge(), "j");
  // It is not asked where they agree, and when it is away the first judge's majority stands.
  Ask("a");
  for (int i = 0; i < 3; ++i) port_.Say(kGood);
  EXPECT_EQ(Answer()->judgements(0).value(), 1);
  Ask("b");
  port_.Say(kGood), port_.Say(kGood), port_.Say(kBad);
  Step();
  port_.Fail();
  answer = Answer();
  ASSERT_TRUE(answer && answer->available());
  EXPECT_EQ(answer->judgements(0).value(), 1);
}

TEST_F(JudgeLoopTest, UnknownJudgesAndBadMessagesDoNotStopIt) {
  Make();
  ASSERT_TRUE(bus_.Publish(kJudgeTopic, "no message").ok());
  v1::JudgeRequest request;
  request.set_request_id("x"), request.set_reply_to("asker"), request.set_judge("who");
  ASSERT_TRUE(bus_.PublishRequest(kJudgeTopic, "asker", request.SerializeAsString()).ok());
  const auto answer = Answer();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->cause(), HasSubstr("no [[judge]] is named \"who\""));
}

}  // namespace
}  // namespace tidemill
