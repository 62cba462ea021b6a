#include "reward/reward_loop.h"

#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"

namespace tidemill {
namespace {

class RewardTest : public testing::Test {
 protected:
  RewardTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    options_.retries = 1;
  }
  void Make(std::vector<ScorerSpec> specs) {
    std::vector<WeightedScorer> scorers;
    for (const ScorerSpec& spec : specs)
      scorers.push_back({std::move(*NewScorer(spec)), spec.weight});
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options_);
    loop_->Attach(waker_);
  }
  void Ask() {
    v1::ScoreRequest request;
    request.set_request_id("r");
    request.set_reply_to("asker");
    request.mutable_id()->set_group(4);
    request.mutable_grading()->add_cases()->set_input("1");
    request.add_files("a.c");
    request.set_end(v1::EPISODE_END_SUBMITTED);
    request.set_generated_tokens(25), request.set_max_tokens(100), request.set_turns(2);
    for (uint32_t passed : {1u, 3u}) {
      v1::ToolCall& call = *request.add_last_calls();
      call.set_tests_passed(passed), call.set_tests_total(4);
    }
    EXPECT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
    loop_->Step(clock_.Now());
  }
  void AnswerTool(std::string_view topic, v1::Outcome outcome, uint32_t passed = 3,
                  int findings = 0) {
    const std::vector<Lease> leases = bus_.Receive(topic, 10).value();
    ASSERT_EQ(leases.size(), 1u) << topic;
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(leases[0].body));
    v1::ToolResult result;
    result.set_request_id(request.request_id());
    result.set_outcome(outcome);
    result.set_compiled(true);
    result.set_tests_passed(passed), result.set_tests_total(4);
    for (int i = 0; i < findings; ++i) result.add_diagnostics();
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(leases[0]).ok());
    loop_->Step(clock_.Now());
  }
  std::vector<v1::Verdict> Verdicts() {
    std::vector<v1::Verdict> verdicts;
    const std::vector<Lease> leases = bus_.Receive("asker", 10).value();
    for (const Lease& lease : leases)
      EXPECT_TRUE(verdicts.emplace_back().ParseFromString(lease.body));
    return verdicts;
  }
  struct NoWaker final : Waker {
    void Wake() override {}
  } waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  RewardOptions options_;
  std::unique_ptr<RewardLoop> loop_;
};

TEST_F(RewardTest, AddsTheWeightedPartsUp) {
  Make({{.name = "tests", .weight = 1},
        {.name = "compiled", .weight = 0.5},
        {.name = "lint", .weight = 0.25, .penalty = 0.5},
        {.name = "length", .weight = 0.1}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  EXPECT_TRUE(Verdicts().empty()) << "lint has not answered";
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK, 0, 1);
  const std::vector<v1::Verdict> verdicts = Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_NEAR(verdicts[0].reward(), 0.75 + 0.5 + 0.25 * 0.5 + 0.1 * 0.75, 1e-12);
  EXPECT_FALSE(verdicts[0].solved());
  EXPECT_EQ(verdicts[0].parts_size(), 4);
  EXPECT_EQ(bus_.Depth(kScoreTopic)->leased, 0u);
}

TEST_F(RewardTest, AllOrNothingGivesOneOnlyForEveryTest) {
  Make({{.name = "tests", .all_or_nothing = true}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 3);
  EXPECT_EQ(Verdicts().at(0).reward(), 0);
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4);
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_EQ(verdict.reward(), 1);
  EXPECT_TRUE(verdict.solved());
}

TEST_F(RewardTest, AFailureOfOursIsTriedAgainAndThenNoReward) {
  Make({{.name = "tests"}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_UNAVAILABLE);
  EXPECT_TRUE(Verdicts().empty());
  clock_.Advance(std::chrono::seconds(1));
  loop_->Step(clock_.Now());
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_UNAVAILABLE);
  const std::vector<v1::Verdict> verdicts = Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].scored());
  EXPECT_NE(verdicts[0].cause(), "");
}

TEST_F(RewardTest, AProgramThatTimesOutIsScoredAsTheAgents) {
  Make({{.name = "tests"}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_TIMEOUT, 0);
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_TRUE(verdict.scored());
  EXPECT_EQ(verdict.reward(), 0);
}

TEST_F(RewardTest, TurnsAreRewardedForWhatTheyGained) {
  options_.turn_weight = 2;
  Make({{.name = "tests"}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  const v1::Verdict verdict = Verdicts().at(0);
  ASSERT_EQ(verdict.turn_rewards_size(), 2);
  EXPECT_NEAR(verdict.turn_rewards(0), 0.5, 1e-12);
  EXPECT_NEAR(verdict.turn_rewards(1), 1.0, 1e-12);
}

TEST_F(RewardTest, ASuccessAfterTheFirstTurnIsWorthLessIfSoConfigured) {
  options_.turn_discount = 0.25;
  Make({{.name = "tests"}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_NEAR(verdict.reward(), 0.25 * verdict.parts(0).value(), 1e-12);
  EXPECT_GT(verdict.reward(), 0);
}

TEST(Scorers, AnUnknownNameListsTheKnownOnes) {
  const auto scorer = NewScorer({.name = "vibes"});
  ASSERT_FALSE(scorer.ok());
  EXPECT_NE(scorer.status().message().find("tests, compiled"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
