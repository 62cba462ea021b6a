// What a program leaves for people, and when a run with it is in vain.
#include <gmock/gmock.h>

#include "testing/agent_fixture.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(AgentTest, WhatAProgramPrintsIsKeptThoughItAskedNothing) {
  Serve("yes");
  const AgentOutcome outcome = Run("print('hello', flush=True)\nraise KeyError('my setting')");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const v1::AgentLog& log = outcome.log;
  EXPECT_THAT(log.text(), testing::StartsWith("hello\nTraceback"));
  EXPECT_THAT(log.text(), testing::EndsWith("KeyError: 'my setting'\n"));
  EXPECT_EQ(log.bytes(), log.text().size());
  EXPECT_FALSE(log.truncated());
  EXPECT_EQ(log.ended(), "failed (status 1)");
  EXPECT_EQ(log.answers(), 0u);
  EXPECT_THAT(log.untrained(), HasSubstr("it ended without asking the model: failed"));
}

TEST_F(AgentTest, OfALongOutputTheEndIsKept) {
  Serve("yes");
  const AgentOutcome outcome = Run(R"py(
Ask("hello")
for i in range(20000): print("line", i)
)py");
  const v1::AgentLog& log = outcome.log;
  EXPECT_TRUE(log.truncated());
  EXPECT_GT(log.bytes(), 200'000u);
  EXPECT_THAT(log.text(), testing::StartsWith("[.. "));
  EXPECT_THAT(log.text(), testing::EndsWith("line 19999\n"));
  EXPECT_LT(log.text().size(), 65'600u);
  EXPECT_EQ(log.answers(), 1u);
  EXPECT_EQ(log.untrained(), "");
}

TEST_F(AgentTest, WhatItChangedIsKeptAsADiff) {
  Serve("yes");
  v1::File& file = *lease_.mutable_task()->add_files();
  file.set_path("a.c"), file.set_content("int a;\nint b;\n"), file.set_has_content(true);
  const AgentOutcome outcome = Run("Ask('hello'); Write('a.c', 'int a;\\nint c;\\n')");
  EXPECT_EQ(outcome.log.diff(),
            "--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,2 @@\n int a;\n-int b;\n+int c;\n");
}

TEST_F(AgentTest, WhyAnEpisodeHasNothingToTrainIsSaidInWords) {
  Serve("yes");
  EXPECT_THAT(Run("Ask('hello', n=2)").log.untrained(),
              HasSubstr("the agent asked for 2 answers at once (n)"));
  runner_.reset();
  AgentProgram program = Python("Ask('hello', temperature=0)");
  program.own_sampling = true;
  EXPECT_THAT(Run(program).log.untrained(), HasSubstr("drawn at temperature 0"));
  runner_.reset();
  EXPECT_THAT(
      Run("sys.exit(str(Ask('hello', max_tokens='many')))").log.untrained(),
      testing::AllOf(HasSubstr("the gateway refused its requests, the last with status 400"),
                     HasSubstr("max_tokens"), HasSubstr("status 1")));
}

TEST_F(AgentTest, AfterTheFirstEpisodesWithoutAnAnswerTheRunIsInVain) {
  Serve("yes");
  give_up_ = 2;
  const std::string crash = "raise KeyError('my setting')";
  ASSERT_TRUE(Run(crash).status.ok());
  EXPECT_TRUE(runner_->CheckUse().ok()) << "one is not enough";
  ASSERT_TRUE(Run(crash).status.ok());
  const Status vain = runner_->CheckUse();
  EXPECT_EQ(vain.code(), Code::kUnavailable);
  EXPECT_THAT(vain.message(), HasSubstr("none of the first 2 episodes got an answer"));
  EXPECT_THAT(vain.message(), HasSubstr("Traceback"));
  EXPECT_THAT(vain.message(), HasSubstr("KeyError: 'my setting'"));
}

TEST_F(AgentTest, OneThatGotAnAnswerIsEnoughForTheRunToGoOn) {
  Serve("yes");
  give_up_ = 2;
  AgentProgram program = Python("if len(sys.argv) > 1: Ask('hello')");
  ASSERT_TRUE(Run(program).status.ok());
  lease_.mutable_task()->mutable_agent()->add_command("/usr/bin/python3");
  for (const std::string& word : {std::string("-c"), kAgentClient + std::string("Ask('hello')")}) {
    lease_.mutable_task()->mutable_agent()->add_command(word);
  }
  ASSERT_EQ(Run(program).log.answers(), 1u);
  lease_.mutable_task()->clear_agent();
  ASSERT_TRUE(Run(program).status.ok());
  ASSERT_TRUE(Run(program).status.ok());
  EXPECT_TRUE(runner_->CheckUse().ok()) << runner_->CheckUse().ToString();
}

TEST_F(AgentTest, TrainingInWhichNoEpisodeHasATokenToTrainIsInVainAndAnEvaluationIsNot) {
  Serve("yes");
  give_up_ = 2;
  lease_.set_purpose(v1::PURPOSE_EVAL);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run("Ask('hello', n=2)").status.ok());
  EXPECT_TRUE(runner_->CheckUse().ok());
  lease_.set_purpose(v1::PURPOSE_TRAIN);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run("Ask('hello', n=2)").status.ok());
  EXPECT_THAT(runner_->CheckUse().message(),
              HasSubstr("none of the first 2 training episodes has a token to train"));
}

}  // namespace
}  // namespace tidemill
