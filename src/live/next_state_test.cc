#include "live/next_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "live/erase_bus.h"
#include "testing/live_fixture.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

// A recorder with a judge that the test plays.
class NextStateTest : public testing::Test {
 protected:
  NextStateTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    Start();
  }
  // A new process with what the store has.
  void Start() {
    LiveLearning learning;
    learning.bus = &bus_;
    learning.signals.train = true;
    learning.next_state.judges = {"j"};
    learning.next_state.worker = "w" + std::to_string(++processes_);
    LiveState state;
    state.signals = world_.store.signals;
    world_.recorder =
        std::make_unique<LiveRecorder>(world_.options, world_.builder, world_.store, world_.clock,
                                       world_.store.State(), state, learning);
    world_.recorder->loop().Attach(waker_);
  }
  void SayAndReply(const std::string& answer, const std::string& reply) {
    messages_.push_back(world_.Say(world_.Ask(RequestOf(messages_)), answer));
    messages_.push_back(UserMessage(reply));
  }
  // The questions on the bus, which stay leased until they are answered.
  std::vector<v1::JudgeRequest> Questions() {
    world_.Step();
    std::vector<v1::JudgeRequest> questions;
    for (const Lease& lease : bus_.Receive(kJudgeTopic, 100).value()) {
      v1::JudgeRequest& request = questions.emplace_back();
      EXPECT_TRUE(request.ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return questions;
  }
  void Answer(const v1::JudgeRequest& request, bool available, double value = 0) {
    v1::JudgeAnswer answer;
    answer.set_request_id(request.request_id()), answer.set_token(request.token());
    answer.set_available(available);
    if (available) {
      answer.add_judgements()->set_value(value), answer.mutable_judgements(0)->set_judge("j");
      answer.mutable_judgements(0)->set_reason("because");
    }
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), answer.SerializeAsString()).ok());
    world_.Step();
    world_.Step();
  }

  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  LiveWorld world_{policy_};
  MemoryBus bus_{world_.clock};
  QuietWaker waker_;
  WireJson messages_ = WireJson::array({UserMessage("what is 2+2")});
  int processes_ = 0;
};

TEST_F(NextStateTest, TheReplyToAnAnswerIsJudgedAndBecomesASignalOnThatTurn) {
  SayAndReply("5", "no, that is wrong");
  EXPECT_TRUE(Questions().empty()) << "nothing came next yet";
  SayAndReply("4", "thanks");
  const auto questions = Questions();
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].judge(), "j");
  EXPECT_EQ(questions[0].prompt(), "what is 2+2");
  ASSERT_EQ(questions[0].turns_size(), 1);
  EXPECT_EQ(questions[0].turns(0).text(), "5");
  EXPECT_EQ(questions[0].turns(0).next(), "user: no, that is wrong");
  EXPECT_EQ(questions[0].session(), "s1");
  Answer(questions[0], true, -1);
  ASSERT_EQ(world_.store.signals.size(), 1u);
  const v1::Signal& signal = world_.store.signals[0];
  EXPECT_EQ(signal.source(), "judge");
  EXPECT_EQ(signal.by(), "j");
  EXPECT_EQ(signal.turn(), 1u);
  EXPECT_EQ(signal.score(), -1);
  EXPECT_EQ(signal.text(), "because");
  EXPECT_EQ(world_.recorder->counters().judging, 0u);
  // The session's reward is what the judge said of its turns.
  world_.CloseAll();
  ASSERT_FALSE(world_.store.verdicts.empty());
  EXPECT_EQ(world_.store.verdicts.back().reward(), -1);
  EXPECT_EQ(world_.store.verdicts.back().parts(0).scorer(), "live.judge");
}

TEST_F(NextStateTest, AJudgeThatIsAwayIsAskedAgainAndNeverAnEvilWord) {
  SayAndReply("5", "no");
  SayAndReply("4", "thanks");
  auto questions = Questions();
  ASSERT_EQ(questions.size(), 1u);
  for (int i = 0; i < 6; ++i) {
    Answer(questions[0], false);
    EXPECT_EQ(world_.recorder->counters().judging, 1u);
    world_.clock.Advance(std::chrono::minutes(6));
    questions = Questions();
    ASSERT_EQ(questions.size(), 1u) << "try " << i;
  }
  Answer(questions[0], false);
  EXPECT_EQ(world_.recorder->counters().unanswered, 1u);
  EXPECT_EQ(world_.recorder->counters().judging, 0u);
  EXPECT_TRUE(world_.store.signals.empty());
}

TEST_F(NextStateTest, AMessageThatSaysNothingOfTheAnswerIsNoSignal) {
  SayAndReply("5", "and what is the weather like");
  SayAndReply("4", "thanks");
  Answer(Questions().at(0), true, 0);
  EXPECT_TRUE(world_.store.signals.empty());
  EXPECT_EQ(world_.recorder->counters().judging, 0u);
}

TEST_F(NextStateTest, WhatAnEarlierProcessDidNotHearIsAskedAgain) {
  SayAndReply("5", "no");
  SayAndReply("4", "thanks");
  ASSERT_EQ(Questions().size(), 1u);
  Start();
  const auto questions = Questions();
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].turns(0).text(), "5");
  Answer(questions[0], true, 1);
  ASSERT_EQ(world_.store.signals.size(), 1u);
  Start();
  EXPECT_TRUE(Questions().empty()) << "it was heard";
}

TEST_F(NextStateTest, WhatIsNotTrainedIsNotShownToAJudge) {
  world_.tenant.consent = Consent::kStore;
  SayAndReply("5", "no");
  SayAndReply("4", "thanks");
  EXPECT_TRUE(Questions().empty());
}

TEST_F(NextStateTest, AnAnswerOnADeletedSessionIsDroppedAndItsDeadLettersGo) {
  SayAndReply("5", "no");
  SayAndReply("4", "thanks");
  const auto questions = Questions();
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(SessionOfQuestion(questions[0].request_id()), 1u);
  EXPECT_EQ(SessionOfQuestion("12.3"), 0u);
  EXPECT_EQ(SessionOfQuestion("s7"), 0u);
  ASSERT_TRUE(bus_.Publish(kJudgeTopic, questions[0].SerializeAsString()).ok());
  const auto leases = bus_.Receive(kJudgeTopic, 1).value();
  ASSERT_TRUE(bus_.Reject(leases.at(0), "cannot be read").ok());
  EXPECT_EQ(world_.recorder->Erase({.session = 1}).size(), 1u);
  Answer(questions[0], true, 1);
  EXPECT_TRUE(world_.store.signals.empty());
  EXPECT_EQ(EraseDeadLetters(bus_, {2}).value(), 0u);
  EXPECT_EQ(EraseDeadLetters(bus_, {1}).value(), 1u);
}

}  // namespace
}  // namespace tidemill
