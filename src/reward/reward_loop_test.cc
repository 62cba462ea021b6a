#include "reward/reward_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "reward/verdict_maker.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// A port whose answers the test gives.
class FakePort final : public ScorerPort {
 public:
  bool Knows(const std::string&) const override { return true; }
  void Submit(const std::string& command, std::string question, uint64_t tag) override {
    asked.push_back({command, std::move(question), tag});
  }
  void Answer(CommandAnswer answer) {
    events_.Post({asked.front().tag, Ok(), std::move(answer)});
    asked.pop_front();
  }
  void Fail(Status status) {
    events_.Post({asked.front().tag, std::move(status), {}});
    asked.pop_front();
  }
  Mailbox<ScorerDone>& events() override { return events_; }
  struct Asked {
    std::string command, question;
    uint64_t tag;
  };
  std::deque<Asked> asked;

 private:
  Mailbox<ScorerDone> events_{100};
};

class RewardTest : public testing::Test {
 protected:
  RewardTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    options_.retries = 1;
  }
  void Make(const RewardConfig& reward) {
    std::vector<WeightedScorer> scorers;
    for (const auto& [name, weight] : reward.weights) {
      scorers.push_back({*NewScorer(name, reward), weight});
    }
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options_, &port_);
    loop_->Attach(waker_);
  }
  void Ask() {
    v1::ScoreRequest request;
    request.set_request_id("r");
    request.set_reply_to("asker");
    v1::TrajectoryId& id = *request.mutable_id();
    id.set_task("t"), id.set_group(4), id.set_attempt(1);
    request.set_token("the asker's");
    request.mutable_grading()->add_cases()->set_input("1");
    request.add_files("a.c");
    request.set_end(v1::EPISODE_END_SUBMITTED);
    request.set_generated_tokens(25), request.set_max_tokens(100), request.set_turns(2);
    request.mutable_time()->set_tool_ms(1500);
    for (uint32_t passed : {1u, 3u}) {
      v1::ToolCall& call = *request.add_last_calls();
      call.set_tests_passed(passed), call.set_tests_total(4);
    }
    EXPECT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
    loop_->Step(clock_.Now());
  }
  void AnswerTool(std::string_view topic, v1::Outcome outcome, uint32_t passed = 3,
                  int findings = 0, const std::string& finding = "", double cpu_ms = 10) {
    const std::vector<Lease> leases = bus_.Receive(topic, 10).value();
    ASSERT_EQ(leases.size(), 1u) << topic;
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(leases[0].body));
    v1::ToolResult result;
    result.set_request_id(request.request_id());
    result.set_token(request.token());
    *result.mutable_episode() = request.episode();
    result.set_outcome(outcome);
    result.set_compiled(true);
    result.set_tests_passed(passed), result.set_tests_total(4);
    for (int i = 0; i < findings; ++i) result.add_diagnostics()->set_message(finding);
    result.set_cpu_ms(cpu_ms);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(leases[0]).ok());
    loop_->Step(clock_.Now());
  }
  std::vector<v1::Verdict> Verdicts() {
    std::vector<v1::Verdict> verdicts;
    for (const Lease& lease : bus_.Receive("asker", 10).value())
      EXPECT_TRUE(verdicts.emplace_back().ParseFromString(lease.body));
    return verdicts;
  }
  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  RewardOptions options_;
  FakePort port_;
  std::unique_ptr<RewardLoop> loop_;
};

// The learner removes what belongs to a worker it takes for lost. One that was only stopped goes
// on.
TEST_F(RewardTest, AnInboxThatWasRemovedIsOpenedAgain) {
  Make({.weights = {{"tests", 1}}});
  loop_->Step(clock_.Now());
  ASSERT_TRUE(bus_.Remove(InboxTopic("local", "reward")).ok());
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  EXPECT_EQ(Verdicts().size(), 1u);
}

CommandAnswer ScoreOf(double score, uint32_t version = 0) {
  CommandAnswer answer;
  answer.has_score = true;
  answer.score = score;
  answer.version = version;
  return answer;
}

TEST_F(RewardTest, AddsTheWeightedPartsUp) {
  Make({.weights = {{"tests", 1}, {"compiled", 0.5}, {"lint", 0.25}, {"length", 0.1}},
        .lint_penalty = 0.5});
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

// Own weights stand instead of the config's, and scorers that only they name have their part.
TEST_F(RewardTest, ATaskWithWeightsOfItsOwnIsScoredByThemAndNeedsNoTests) {
  std::vector<WeightedScorer> scorers;
  scorers.push_back({*NewScorer("tests", {}), 1});
  scorers.push_back({*NewScorer("lint", {}), 0, /*by_default=*/false});
  scorers.push_back({*NewScorer("command", {}), 0, /*by_default=*/false});
  loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options_, &port_);
  loop_->Attach(waker_);
  v1::ScoreRequest request;
  request.set_request_id("r");
  request.set_reply_to("asker");
  v1::TrajectoryId& id = *request.mutable_id();
  id.set_task("t"), id.set_group(4), id.set_attempt(1);
  request.add_files("a.c");
  request.set_metadata_json(R"({"topic":"queues"})");
  for (const char* name : {"lint", "command"}) {
    v1::ScorerWeight& weight = *request.add_weights();
    weight.set_scorer(name), weight.set_weight(2);
  }
  ASSERT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
  loop_->Step(clock_.Now());
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK);
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_THAT(port_.asked[0].question, HasSubstr(R"("metadata":{"topic":"queues"})"));
  CommandAnswer answer;
  answer.has_score = true, answer.score = 1;
  port_.Answer(answer);
  loop_->Step(clock_.Now());
  const auto verdicts = Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_TRUE(verdicts[0].scored()) << verdicts[0].cause();
  EXPECT_DOUBLE_EQ(verdicts[0].reward(), 4);
  EXPECT_EQ(verdicts[0].parts_size(), 2);
  EXPECT_TRUE(verdicts[0].solved()) << "everything that earns something is whole";
}

TEST_F(RewardTest, AllOrNothingGivesOneOnlyForEveryTest) {
  Make({.weights = {{"tests", 1}}, .all_or_nothing = true});
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
  Make({.weights = {{"tests", 1}}});
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
  Make({.weights = {{"tests", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_TIMEOUT, 0);
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_TRUE(verdict.scored());
  EXPECT_EQ(verdict.reward(), 0);
}

TEST_F(RewardTest, TurnsAreRewardedForWhatTheyGained) {
  options_.turn_weight = 2;
  Make({.weights = {{"tests", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  const v1::Verdict verdict = Verdicts().at(0);
  ASSERT_EQ(verdict.turn_rewards_size(), 2);
  EXPECT_NEAR(verdict.turn_rewards(0), 0.5, 1e-12);
  EXPECT_NEAR(verdict.turn_rewards(1), 1.0, 1e-12);
}

TEST_F(RewardTest, ASuccessAfterTheFirstTurnIsWorthLessIfSoConfigured) {
  options_.turn_discount = 0.25;
  Make({.weights = {{"tests", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_NEAR(verdict.reward(), 0.25 * verdict.parts(0).value(), 1e-12);
  EXPECT_GT(verdict.reward(), 0);
}

TEST_F(RewardTest, WaitingForToolsCostsWhatIsConfiguredAndHasNoSayInWhatIsSolved) {
  options_.time_weight = 0.25;
  Make({.weights = {{"tests", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  const v1::Verdict verdict = Verdicts().at(0);
  ASSERT_EQ(verdict.parts_size(), 2);
  EXPECT_EQ(verdict.parts(1).scorer(), "time");
  EXPECT_EQ(verdict.parts(1).value(), 1.5);
  EXPECT_NEAR(verdict.reward(), verdict.parts(0).value() - 0.25 * 1.5, 1e-12);
}

TEST_F(RewardTest, ACommandScoresAfterTheTestsAndSaysItsVersionAndTheTurnsRewards) {
  Make({.weights = {{"command", 2}}, .command_version = 5});
  Ask();
  EXPECT_TRUE(port_.asked.empty()) << "it gets to read the tests";
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_NE(port_.asked[0].question.find("\"tests_passed\":3"), std::string::npos);
  CommandAnswer answer = ScoreOf(0.5, 7);
  answer.turn_rewards = {0.25, -0.25};
  port_.Answer(answer);
  loop_->Step(clock_.Now());
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_EQ(verdict.reward(), 1);
  EXPECT_EQ(verdict.parts(0).scorer_version(), 7u);
  ASSERT_EQ(verdict.turn_rewards_size(), 2);
  EXPECT_EQ(verdict.turn_rewards(0), 0.5);
  EXPECT_EQ(verdict.turn_rewards(1), -0.5);
}

TEST_F(RewardTest, ARoleHasARewardOfItsOwnWhereACommandSaysSo) {
  const auto verdict_of = [&](const std::map<std::string, double>& by_role) {
    v1::ScoreRequest request;
    request.set_turns(2);
    for (const char* role : {"plan", "code"})
      request.add_turn_roles(role), request.add_last_calls();
    CommandAnswer answer = ScoreOf(0.5, 7);
    answer.by_role = by_role;
    OpenScore score;
    score.request = request;
    score.evidence.answers["command"] = answer;
    score.evidence.tools["grade"].set_tests_total(1);
    RewardOptions options;
    options.turn_discount = 0.5;
    std::vector<WeightedScorer> scorers;
    for (const auto& [name, weight] : {std::pair("command", 2.0), std::pair("format", 4.0)}) {
      scorers.push_back({NewScorer(name, {.command = {"judge"}}).value(), weight});
    }
    const ScorerAudits audits(scorers, options);
    return VerdictMaker(scorers, audits, options).Make(score);
  };
  EXPECT_EQ(verdict_of({}).by_role_size(), 0) << "the episode's reward is everybody's";
  const v1::Verdict verdict = verdict_of({{"plan", -1}});
  EXPECT_EQ(verdict.reward(), 0.5 * 2 * 0.5);
  ASSERT_EQ(verdict.by_role_size(), 2);
  EXPECT_EQ(verdict.by_role(0).role(), "code");
  EXPECT_EQ(verdict.by_role(0).reward(), verdict.reward());
  EXPECT_EQ(verdict.by_role(1).reward(), 0.5 * 2 * -1);
  EXPECT_NE(verdict_of({{"spy", 1}}).cause().find("names \"spy\""), std::string::npos);
}

TEST_F(RewardTest, ACommandThatFailsIsAskedAgainAndThenThereIsNoReward) {
  Make({.weights = {{"command", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  port_.Fail(Timeout("no answer within 5 ms"));
  loop_->Step(clock_.Now());
  EXPECT_TRUE(Verdicts().empty());
  EXPECT_TRUE(port_.asked.empty()) << "not at once";
  clock_.Advance(std::chrono::seconds(1));
  loop_->Step(clock_.Now());
  ASSERT_EQ(port_.asked.size(), 1u);
  port_.Fail(Invalid("\"score\" must be a number from -1 to 1, got \"high\""));
  loop_->Step(clock_.Now());
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_FALSE(verdict.scored());
  EXPECT_NE(verdict.cause().find("got \"high\""), std::string::npos) << verdict.cause();
}

TEST_F(RewardTest, AVerdictCanBeReadWhateverBytesACommandWrites) {
  options_.retries = 0;
  Make({.weights = {{"command", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK);
  port_.Fail(Unavailable("exit status 1: caf\xC3"));
  loop_->Step(clock_.Now());
  EXPECT_THAT(Verdicts().at(0).cause(), HasSubstr("caf\xEF\xBF\xBD"));
}

TEST_F(RewardTest, AReviewQuotesNoPartOfACharacter) {
  Make({.weights = {{"review", 1}}, .review_cpu_ms = 10});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, /*passed=*/4);
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK, 0, 1, std::string(119, 'x') + "\xC3\xA4 unused");
  const v1::Verdict verdict = Verdicts().at(0);
  std::string comments;
  for (const v1::SubScore& sub : verdict.parts(0).sub_scores()) comments += sub.comment();
  EXPECT_THAT(comments, HasSubstr(std::string(119, 'x') + ".."));
}

TEST_F(RewardTest, LintGivesNothingUnlessTheLinterRanToItsEnd) {
  Make({.weights = {{"lint", 1}}});
  for (const v1::Outcome outcome :
       {v1::OUTCOME_INVALID, v1::OUTCOME_FAILED, v1::OUTCOME_TIMEOUT, v1::OUTCOME_CPU_LIMIT,
        v1::OUTCOME_MEMORY_LIMIT, v1::OUTCOME_OUTPUT_LIMIT, v1::OUTCOME_SIGNAL}) {
    Ask();
    AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4);
    AnswerTool(kToolsLintTopic, outcome);
    const v1::Verdict verdict = Verdicts().at(0);
    EXPECT_TRUE(verdict.scored());
    EXPECT_EQ(verdict.reward(), 0) << v1::Outcome_Name(outcome);
  }
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4);
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK);
  EXPECT_EQ(Verdicts().at(0).reward(), 1);
}

TEST_F(RewardTest, AReviewsStyleAndSecurityAreNothingUnlessTheLinterRanToItsEnd) {
  Make({.weights = {{"review", 1}}, .review_weights = {{"style", 1}, {"security", 1}}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4);
  AnswerTool(kToolsLintTopic, v1::OUTCOME_INVALID);
  AnswerTool(kToolsCompileTopic, v1::OUTCOME_INVALID);
  EXPECT_EQ(Verdicts().at(0).reward(), 0);
}

TEST_F(RewardTest, AReviewLooksASecondTimeAtWhatIsLow) {
  Make({.weights = {{"review", 1}}, .lint_penalty = 0.3, .review_cpu_ms = 10});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, /*passed=*/1);
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK, 0, 2, "buffer overflow");
  EXPECT_TRUE(Verdicts().empty()) << "correctness and security are below one half";
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, /*passed=*/3);
  AnswerTool(kToolsCompileTopic, v1::OUTCOME_OK, 0, 0);
  const v1::Verdict verdict = Verdicts().at(0);
  ASSERT_EQ(verdict.parts(0).sub_scores_size(), 4);
  std::map<std::string, v1::SubScore> subs;
  for (const v1::SubScore& sub : verdict.parts(0).sub_scores()) subs[sub.name()] = sub;
  EXPECT_EQ(subs["correctness"].value(), (0.25 + 0.75) / 2);
  EXPECT_EQ(subs["correctness"].looks(), 2u);
  EXPECT_EQ(subs["style"].value(), 1) << "the findings were about security";
  EXPECT_EQ(subs["style"].looks(), 1u);
  EXPECT_EQ(subs["performance"].value(), 1);
  EXPECT_NEAR(subs["security"].value(), (0.4 + 1) / 2, 1e-12);
  EXPECT_NEAR(verdict.reward(), 0.4 * 0.5 + 0.2 + 0.2 + 0.2 * 0.7, 1e-12);
  EXPECT_EQ(verdict.tests_passed(), 1u) << "whether it is solved, the first look says";
  EXPECT_EQ(loop_->counters().second_looks, 2u);
}

TEST_F(RewardTest, AReviewsPerformanceIsMeasuredByTheFastestRightAnswerToTheTask) {
  Make({.weights = {{"review", 1}},
        .review_weights = {{"performance", 1}},
        .review_threshold = 0.1});
  const auto score = [&](double cpu_ms) {
    Ask();
    AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4, 0, "", cpu_ms);
    AnswerTool(kToolsLintTopic, v1::OUTCOME_OK);
    return Verdicts().at(0).reward();
  };
  EXPECT_EQ(score(40), 1);
  EXPECT_EQ(score(80), 0.5);
  EXPECT_EQ(score(20), 1);
  EXPECT_EQ(score(40), 0.5);
}

TEST_F(RewardTest, AReviewsJudgeIsToldWhatWasLowAndItsSecondWordCounts) {
  Make({.weights = {{"review", 1}}, .review_cpu_ms = 10, .review_judge = {"judge"}});
  Ask();
  AnswerTool(kToolsGradeTopic, v1::OUTCOME_OK, 4);
  AnswerTool(kToolsLintTopic, v1::OUTCOME_OK);
  CommandAnswer answer;
  answer.parts["style"] = {0.2, "names say nothing"};
  answer.parts["security"] = {0.9, "fine"};
  port_.Answer(answer);
  loop_->Step(clock_.Now());
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_NE(port_.asked[0].question.find("\"focus\":[\"style\"]"), std::string::npos);
  EXPECT_NE(port_.asked[0].question.find("names say nothing"), std::string::npos);
  answer.parts["style"] = {0.6, "short, but clear in context"};
  answer.version = 3;
  port_.Answer(answer);
  loop_->Step(clock_.Now());
  const v1::Verdict verdict = Verdicts().at(0);
  EXPECT_NEAR(verdict.reward(), 0.4 + 0.2 * 0.6 + 0.2 + 0.2 * 0.9, 1e-12);
  EXPECT_EQ(verdict.parts(0).scorer_version(), 3u);
}

TEST(Scorers, EveryRowOfTheRegistryMakesTheScorerItNames) {
  RewardConfig reward;
  reward.judges.resize(1);
  for (const ScorerRow& row : Scorers()) {
    const auto scorer = NewScorer(row.name, reward);
    ASSERT_TRUE(scorer.ok()) << row.name << ": " << scorer.status().ToString();
    EXPECT_EQ((*scorer)->name(), row.name);
    EXPECT_FALSE(row.help.empty());
  }
}

TEST(Scorers, AnUnknownNameListsTheKnownOnes) {
  const auto scorer = NewScorer("vibes", {});
  ASSERT_FALSE(scorer.ok());
  EXPECT_NE(scorer.status().message().find("tests, compiled"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
