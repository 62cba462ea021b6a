// The order of gradings in the reward loop, with a verifier that the test plays.
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "reward/reward_loop.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using Names = std::vector<std::string>;

class OrderedRewards : public testing::Test {
 protected:
  OrderedRewards() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok() && bus_.Open("asker", {}).ok());
    RewardOptions options;
    JudgeConfig judge;
    judge.name = "verifier", judge.reward = false;
    options.judges = {judge};
    options.order_by = "verifier", options.order_ahead = 1;
    options.order_wait = std::chrono::seconds(5);
    std::vector<WeightedScorer> scorers;
    scorers.push_back({*NewScorer("tests", {}), 1});
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options);
    loop_->Attach(waker_);
  }
  void Step() { loop_->Step(clock_.Now()); }

  // The request's name is its answer, too.
  void Ask(const std::string& name, uint64_t group, v1::Purpose purpose = v1::PURPOSE_TRAIN) {
    v1::ScoreRequest request;
    request.set_request_id(name), request.set_reply_to("asker"), request.set_token("t");
    request.mutable_id()->set_task("t"), request.mutable_id()->set_group(group);
    request.mutable_id()->set_attempt(1);
    request.set_purpose(purpose), request.set_end(v1::EPISODE_END_SUBMITTED);
    request.set_submission(name), request.set_prompt("write it");
    request.mutable_grading()->add_cases()->set_input("1");
    ASSERT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
    Step();
  }
  // Answers every question there is; the others would be late.
  void Estimate(const std::map<std::string, double>& said) {
    for (const Lease& lease : bus_.Receive(kJudgeTopic, 100).value()) {
      v1::JudgeRequest request;
      ASSERT_TRUE(request.ParseFromString(lease.body));
      EXPECT_EQ(request.judge(), "verifier");
      v1::JudgeAnswer answer;
      answer.set_request_id(request.request_id()), answer.set_token(request.token());
      const auto known = said.find(request.submission());
      answer.set_available(known != said.end());
      if (known != said.end()) {
        v1::Judgement& judgement = *answer.add_judgements();
        judgement.set_judge("verifier"), judgement.set_value(known->second);
      }
      EXPECT_TRUE(bus_.PublishReply(request.reply_to(), answer.SerializeAsString()).ok());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    Step();
  }
  // The gradings at the tools, by the names of their requests. Each is answered.
  Names Grade() {
    Names names;
    for (const Lease& lease : bus_.Receive(kToolsGradeTopic, 100).value()) {
      v1::ToolRequest request;
      EXPECT_TRUE(request.ParseFromString(lease.body));
      names.push_back(request.request_id().substr(0, request.request_id().find('.')));
      v1::ToolResult result;
      result.set_request_id(request.request_id()), result.set_token(request.token());
      *result.mutable_episode() = request.episode();
      result.set_outcome(v1::OUTCOME_OK), result.set_compiled(true);
      result.set_tests_total(1), result.set_tests_passed(1);
      EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    Step();
    return names;
  }
  Names GradeAll() {
    Names all;
    for (Names some = Grade(); !some.empty(); some = Grade())
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }
  size_t Verdicts() { return bus_.Receive("asker", 100)->size(); }

  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  std::unique_ptr<RewardLoop> loop_;
};

TEST_F(OrderedRewards, TheGroupThatMostLikelyDiffersIsGradedFirst) {
  Ask("first", 1);  // there is room: it goes at once
  Ask("a1", 2), Ask("a2", 2), Ask("b1", 3), Ask("b2", 3);
  Estimate({{"a1", 0.9}, {"a2", 0.95}, {"b1", 0.9}, {"b2", 0.2}});
  EXPECT_EQ(GradeAll(), (Names{"first", "b1", "b2", "a1", "a2"}));
  EXPECT_EQ(Verdicts(), 5u);
  EXPECT_EQ(loop_->counters().estimated, 4u);
  EXPECT_EQ(loop_->counters().overdue, 0u);
}

TEST_F(OrderedRewards, WithoutTheVerifierTheyGoInTheOrderOfTheirComing) {
  for (const char* name : {"a", "b", "c", "d"}) Ask(name, static_cast<uint64_t>(name[0]));
  EXPECT_EQ(Grade(), Names{"a"}) << "the verifier has not answered, and nothing waits for it";
  Estimate({});
  EXPECT_EQ(GradeAll(), (Names{"b", "c", "d"}));
  EXPECT_EQ(Verdicts(), 4u);
  EXPECT_EQ(loop_->counters().estimated, 0u);
}

TEST_F(OrderedRewards, EvaluationsAreNotHeldBackAndWhatWaitedLongEnoughGoesWithoutRoom) {
  Ask("a", 1), Ask("b", 2), Ask("eval", 3, v1::PURPOSE_EVAL);
  EXPECT_EQ(bus_.Depth(kToolsGradeTopic)->ready, 2u) << "a and the evaluation";
  clock_.Advance(std::chrono::seconds(5));
  Step();
  EXPECT_EQ(bus_.Depth(kToolsGradeTopic)->ready, 3u);
  EXPECT_EQ(loop_->counters().overdue, 1u);
  EXPECT_EQ(GradeAll(), (Names{"a", "eval", "b"}));
}

// It is asked about a few, and again about others when it answers.
TEST_F(OrderedRewards, ASlowVerifierIsNotFlooded) {
  for (int i = 0; i < 90; ++i) Ask("n" + std::to_string(i), 1 + static_cast<uint64_t>(i) / 8);
  const size_t asked = bus_.Depth(kJudgeTopic)->ready;
  EXPECT_EQ(asked, 64u);
  Estimate({});
  EXPECT_EQ(bus_.Depth(kJudgeTopic)->ready, 90u - 1 - asked);
  EXPECT_EQ(GradeAll().size(), 90u);
  EXPECT_EQ(Verdicts(), 90u);
}

TEST_F(OrderedRewards, WhatAnotherWorkerTookOverIsForgotten) {
  Ask("a", 1), Ask("b", 2);
  clock_.Advance(std::chrono::hours(1));  // its leases ran out
  const std::vector<Lease> taken = bus_.Receive(kScoreTopic, 10).value();
  ASSERT_EQ(taken.size(), 2u) << "another worker has them";
  Step();
  for (const std::string& name : GradeAll()) EXPECT_EQ(name, "a") << "it was at the tools before";
  EXPECT_EQ(Verdicts(), 0u);
  EXPECT_EQ(loop_->counters().waiting, 0u);
}

}  // namespace
}  // namespace tidemill
