// The scorer "proof" in the reward loop: what is proved or refuted needs no box.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "reward/proof_port.h"
#include "reward/reward_loop.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class ProofScorerTest : public testing::Test {
 protected:
  ProofScorerTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    const RewardConfig reward{.weights = {{"proof", 1}}};
    std::vector<WeightedScorer> scorers;
    scorers.push_back({*NewScorer("proof", reward), 1});
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), RewardOptions(), &port_);
    loop_->Attach(bell_);
  }

  // An answer to a task whose right function doubles its argument.
  void Ask(const std::string& answer, v1::Purpose purpose = v1::PURPOSE_TRAIN) {
    v1::ScoreRequest request;
    request.set_request_id("r");
    request.set_reply_to("asker");
    v1::TrajectoryId& id = *request.mutable_id();
    id.set_task("t"), id.set_group(4), id.set_attempt(1);
    request.set_purpose(purpose);
    request.set_end(v1::EPISODE_END_SUBMITTED);
    v1::Grading& grading = *request.mutable_grading();
    grading.add_sources("f.c");
    grading.add_cases()->set_input("1");
    grading.mutable_specification()->set_source("int f(int a) { return 2 * a; }");
    grading.mutable_specification()->set_low(-9);
    grading.mutable_specification()->set_high(9);
    v1::File& file = *request.mutable_tree()->add_files();
    file.set_path("f.c"), file.set_content(answer), file.set_has_content(true);
    EXPECT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
    loop_->Step(clock_.Now());
  }

  // Steps the loop when the prover has answered, until something has come of it.
  bool StepUntil(const std::function<bool()>& holds) {
    return Eventually([&] {
      loop_->Step(clock_.Now());
      return holds();
    });
  }

  std::optional<v1::Verdict> Verdict() {
    for (const Lease& lease : bus_.Receive("asker", 10).value()) {
      v1::Verdict verdict;
      EXPECT_TRUE(verdict.ParseFromString(lease.body));
      return verdict;
    }
    return std::nullopt;
  }

  v1::Verdict Judged() {
    std::optional<v1::Verdict> verdict;
    EXPECT_TRUE(StepUntil([&] { return (verdict = Verdict()).has_value(); }));
    return verdict.value_or(v1::Verdict());
  }

  uint64_t BoxesAskedFor() { return bus_.Depth(kToolsGradeTopic)->ready; }

  Bell bell_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  ProofPort port_{nullptr};
  std::unique_ptr<RewardLoop> loop_;
};

TEST_F(ProofScorerTest, WhatIsProvedNeedsNoBox) {
  Ask("int f(int a) { return a + a; }");
  const v1::Verdict verdict = Judged();
  EXPECT_TRUE(verdict.scored());
  EXPECT_EQ(verdict.reward(), 1);
  EXPECT_TRUE(verdict.solved());
  EXPECT_TRUE(verdict.compiled());
  EXPECT_THAT(verdict.parts(0).comment(), HasSubstr("proved"));
  EXPECT_EQ(BoxesAskedFor(), 0u);
}

TEST_F(ProofScorerTest, WhatIsRefutedShowsTheInput) {
  Ask("int f(int a) { return a == 7 ? 0 : a * 2; }");
  const v1::Verdict verdict = Judged();
  EXPECT_EQ(verdict.reward(), 0);
  EXPECT_FALSE(verdict.solved());
  EXPECT_EQ(verdict.parts(0).comment(),
            "refuted: f(a=7): the reference returns 14, the candidate returns 0");
  EXPECT_EQ(BoxesAskedFor(), 0u);
}

TEST_F(ProofScorerTest, WhatIsUnknownGoesToABox) {
  for (const char* answer : {"int f(int a) { return (double)a * 2; }", "this is no C"}) {
    Ask(answer);
    ASSERT_TRUE(StepUntil([&] { return BoxesAskedFor() == 1; })) << answer;
    const Lease lease = bus_.Receive(kToolsGradeTopic, 1).value().at(0);
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(lease.body));
    v1::ToolResult result;
    result.set_request_id(request.request_id());
    result.set_token(request.token());
    *result.mutable_episode() = request.episode();
    result.set_outcome(v1::OUTCOME_OK);
    result.set_tests_passed(3), result.set_tests_total(4);
    ASSERT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    ASSERT_TRUE(bus_.Ack(lease).ok());
    const v1::Verdict verdict = Judged();
    EXPECT_EQ(verdict.reward(), 0.75);
    EXPECT_THAT(verdict.parts(0).comment(), HasSubstr("no proof"));
  }
}

TEST_F(ProofScorerTest, WhatNoCompilerTakesIsRefutedWithoutABox) {
  Ask("int f(int a) { return a * ; }");
  const v1::Verdict verdict = Judged();
  EXPECT_EQ(verdict.reward(), 0);
  EXPECT_THAT(verdict.parts(0).comment(),
              HasSubstr("refuted: the answer is no C: line 1: expected"));
  EXPECT_EQ(BoxesAskedFor(), 0u);
}

TEST_F(ProofScorerTest, AnEvaluationRunsTheTests) {
  Ask("int f(int a) { return a + a; }", v1::PURPOSE_EVAL);
  EXPECT_EQ(BoxesAskedFor(), 1u);
}

TEST(ProofQuestion, HostileQuestionsAreUnknown) {
  for (const char* question : {"", "[]", "{}", R"({"specification": 3})",
                               R"({"specification": {}, "sources": [3], "files": 4})",
                               R"({"specification": {"source": 7, "low": "x"}, "sources": ["f.c"],
            "files": [1, {"path": "f.c"}, {"path": 3, "content": "x"}, {"path": "f.c", "content": "int"}]})"}) {
    const CommandAnswer answer = AnswerProofQuestion(question);
    EXPECT_FALSE(answer.has_score) << question;
    EXPECT_EQ(answer.parts.count(kProofUnknown), 1u) << question;
  }
}

}  // namespace
}  // namespace tidemill
