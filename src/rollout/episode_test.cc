#include "rollout/episode.h"

#include <gtest/gtest.h>

#include "core/hash.h"

namespace tidemill {
namespace {

// Token 1: an answer. 2: one call. 3: write_file, then compile and lint side by side. 9: nonsense.
class FakeTalk final : public EpisodeTalk {
 public:
  explicit FakeTalk(const Result<NextPrompt>& next) : next_(next) {}
  Result<std::vector<TokenId>> Open() const override { return std::vector<TokenId>{5, 5}; }
  ParsedTurn Parse(std::span<const TokenId> ids) override {
    ParsedTurn turn;
    if (ids[0] == 1) turn.answer = "body";
    if (ids[0] == 2) turn.calls = {{"compile", "{}"}};
    if (ids[0] == 3) turn.calls = {{"write_file", "{}"}, {"compile", "{}"}, {"lint", "{}"}};
    if (ids[0] == 4) turn.calls = {{"format", "{}"}, {"compile", "{}"}, {"count", "{}"}};
    if (ids[0] == 7) turn.calls = {{"bash", "{}"}, {"bash", "{}"}};
    if (ids[0] == 9) turn.malformed = "nonsense";
    return turn;
  }
  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies&, size_t) override {
    return next_;
  }
  Result<NextPrompt> Hear(const std::string&) override { return next_; }

 private:
  const Result<NextPrompt>& next_;
};

class FakeProtocol final : public AgentProtocol {
 public:
  bool checks = false;
  Result<NextPrompt> next = NextPrompt{.ids = {6}};
  std::string_view name() const override { return "fake"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_; }
  bool ChecksAnswers() const override { return checks; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening&) const override {
    return std::make_unique<FakeTalk>(next);
  }

 private:
  std::vector<TokenId> stop_ = {0};
};

class EpisodeTest : public testing::Test {
 protected:
  EpisodeTest() {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease.set_group(7);
    group->lease.set_members(2);
    group->lease.set_max_turns(3);
    group->lease.mutable_sampling()->set_temperature(1);
    v1::Task& task = *group->lease.mutable_task();
    task.set_id("t");
    task.set_answer_file("a.c");
    task.set_answer_prefix("<"), task.set_answer_suffix(">");
    task.mutable_examples()->add_cases()->set_input("1");
    group->prompt = {5, 5};
    group->max_context = 100;
    group->worker = "w";
    group_ = group;
  }
  Episode Make() { return Episode(group_, 1, protocol_, limits_, 1000); }
  static TurnOutput Turn(TokenId token) {
    TurnOutput output;
    output.ids = {token, 0};
    output.logprobs = {-0.5f, -0.1f};
    output.versions = {{4, 1}, {5, 1}};
    return output;
  }
  static v1::ToolResult ResultFor(const ToolCallOrder& order,
                                  v1::Outcome outcome = v1::OUTCOME_OK) {
    v1::ToolResult result;
    result.set_request_id(order.request.request_id());
    result.set_outcome(outcome);
    *result.mutable_tree() = order.request.tree();
    return result;
  }

  std::shared_ptr<EpisodeGroup> group_;
  FakeProtocol protocol_;
  EpisodeLimits limits_;
};

TEST_F(EpisodeTest, AnAnswerIsWrittenToItsFileAndEndsTheEpisode) {
  Episode episode = Make();
  EXPECT_TRUE(episode.Begin(1000).generate);
  EXPECT_TRUE(episode.OnTurn(Turn(1), 1100).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_SUBMITTED);
  ASSERT_EQ(trajectory.tree().files_size(), 1);
  EXPECT_EQ(trajectory.tree().files(0).content(), "<body>");
  ASSERT_EQ(trajectory.turns_size(), 1);
  EXPECT_EQ(trajectory.turns(0).versions_size(), 2);
  EXPECT_EQ(trajectory.turns(0).logprobs_size(), 2);
}

TEST_F(EpisodeTest, ACallThatChangesFilesRunsBeforeThoseBehindIt) {
  Episode episode = Make();
  (void)episode.Begin(0);
  EpisodeActions first = episode.OnTurn(Turn(3), 1);
  ASSERT_EQ(first.calls.size(), 1u);
  EXPECT_EQ(first.calls[0].request.tool(), "write_file");
  v1::ToolResult written = ResultFor(first.calls[0]);
  v1::File& file = *written.mutable_tree()->add_files();
  file.set_path("new.c"), file.set_content("x"), file.set_has_content(true),
      file.set_hash(Sha256Hex("x"));
  EpisodeActions second = episode.OnResult(written, 2);
  ASSERT_EQ(second.calls.size(), 2u) << "compile and lint run side by side";
  EXPECT_EQ(second.calls[0].request.tree().files(0).path(), "new.c");
  EXPECT_TRUE(episode.OnResult(ResultFor(second.calls[1]), 3).calls.empty());
  EpisodeActions next = episode.OnResult(ResultFor(second.calls[0]), 4);
  EXPECT_TRUE(next.generate);
  EXPECT_EQ(next.append, std::vector<TokenId>{6});
}

TEST_F(EpisodeTest, AConfiguredToolSharesAWaveOnlyWhereItLeavesTheFiles) {
  limits_.reading_tools = {"count"};
  Episode episode = Make();
  (void)episode.Begin(0);
  const EpisodeActions first = episode.OnTurn(Turn(4), 1);
  ASSERT_EQ(first.calls.size(), 1u);
  EXPECT_EQ(first.calls[0].request.tool(), "format");
  const EpisodeActions second = episode.OnResult(ResultFor(first.calls[0]), 2);
  ASSERT_EQ(second.calls.size(), 2u);
  EXPECT_EQ(second.calls[1].request.tool(), "count");
}

TEST_F(EpisodeTest, AFailureOfOursIsTriedAgainUnderANewIdAndThenMakesTheEpisodeStale) {
  limits_.tool_retries = 2;
  Episode episode = Make();
  (void)episode.Begin(0);
  EpisodeActions actions = episode.OnTurn(Turn(2), 1);
  std::string id = actions.calls[0].request.request_id();
  for (int i = 0; i < 2; ++i) {
    actions = episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_UNAVAILABLE), 2);
    ASSERT_EQ(actions.calls.size(), 1u);
    EXPECT_NE(actions.calls[0].request.request_id(), id);
    EXPECT_GT(actions.calls[0].delay.count(), 0);
    id = actions.calls[0].request.request_id();
  }
  EXPECT_TRUE(episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_UNAVAILABLE), 3).finished);
  EXPECT_EQ(episode.TakeTrajectory().end(), v1::EPISODE_END_GIVEN_UP);
}

TEST_F(EpisodeTest, WithSkipTheAgentIsToldThatTheToolIsUnavailable) {
  limits_.tool_retries = 0;
  limits_.on_unavailable = "skip";
  Episode episode = Make();
  (void)episode.Begin(0);
  EpisodeActions actions = episode.OnTurn(Turn(2), 1);
  EXPECT_TRUE(episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_UNAVAILABLE), 2).generate);
  EXPECT_TRUE(episode.OnTurn(Turn(1), 3).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_TRUE(trajectory.turns(0).calls(0).skipped());
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_SUBMITTED);
}

TEST_F(EpisodeTest, ATimeoutOfTheAgentsProgramIsAResultAndNotRetried) {
  Episode episode = Make();
  (void)episode.Begin(0);
  EpisodeActions actions = episode.OnTurn(Turn(2), 1);
  EXPECT_TRUE(episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_TIMEOUT), 2).generate);
}

TEST_F(EpisodeTest, CallsOfAShellGoToTheWorkerThatHoldsTheBox) {
  Episode episode = Make();
  (void)episode.Begin(1000);
  EpisodeActions actions = episode.OnTurn(Turn(7), 1100);
  ASSERT_EQ(actions.calls.size(), 1u) << "one after the other";
  EXPECT_EQ(actions.calls[0].request.box_holder(), "");
  v1::ToolResult result = ResultFor(actions.calls[0]);
  result.set_worker("tools-3");
  actions = episode.OnResult(result, 1200);
  ASSERT_EQ(actions.calls.size(), 1u);
  EXPECT_EQ(actions.calls[0].request.box_holder(), "tools-3");
  EXPECT_EQ(episode.box_holder(), "tools-3");
  // Running into a limit is a result of the agent's.
  EXPECT_TRUE(
      episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_MEMORY_LIMIT), 1300).generate);
}

TEST_F(EpisodeTest, ABoxLostThroughUsMakesTheEpisodeStaleAtOnceAndNothingIsRunTwice) {
  limits_.on_unavailable = "skip";
  Episode episode = Make();
  (void)episode.Begin(1000);
  EpisodeActions actions = episode.OnTurn(Turn(7), 1100);
  // Before there is a box a failure of ours is tried again.
  actions = episode.OnResult(ResultFor(actions.calls[0], v1::OUTCOME_UNAVAILABLE), 1150);
  ASSERT_EQ(actions.calls.size(), 1u);
  v1::ToolResult result = ResultFor(actions.calls[0]);
  result.set_worker("tools-3");
  actions = episode.OnResult(result, 1200);
  result = ResultFor(actions.calls[0], v1::OUTCOME_UNAVAILABLE);
  result.set_cause("the worker died");
  EXPECT_TRUE(episode.OnResult(result, 1300).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_GIVEN_UP);
  EXPECT_EQ(trajectory.stale_cause(), "the episode's box was lost: the worker died");
}

TEST(PromptText, ShowsASmallFileListsManyAndDoesAsToldOtherwise) {
  v1::Task task;
  task.set_prompt("Fix it.");
  EXPECT_EQ(PromptText(task), "Fix it.");
  v1::File& file = *task.add_files();
  file.set_path("a.c"), file.set_content("int a;"), file.set_has_content(true);
  EXPECT_EQ(PromptText(task), "Fix it.\n\nFile a.c:\nint a;");
  *task.add_files() = file;
  task.mutable_files(1)->set_path("b.c");
  EXPECT_EQ(PromptText(task), "Fix it.\n\nFiles of the workspace:\na.c\nb.c\n");
  task.set_prompt_files(v1::Task::PROMPT_FILES_NONE);
  EXPECT_EQ(PromptText(task), "Fix it.");
  task.set_prompt_files(v1::Task::PROMPT_FILES_ALL);
  task.mutable_files(1)->clear_content(), task.mutable_files(1)->set_has_content(false);
  EXPECT_EQ(PromptText(task), "Fix it.\n\nFile a.c:\nint a;\n\nFile b.c:\n(too large to show)");
}

TEST_F(EpisodeTest, AnAnswerThatFailsItsExamplesGetsAnotherTurn) {
  protocol_.checks = true;
  Episode episode = Make();
  (void)episode.Begin(0);
  EpisodeActions actions = episode.OnTurn(Turn(1), 1);
  ASSERT_EQ(actions.calls.size(), 1u);
  EXPECT_EQ(actions.calls[0].request.tool(), "run_tests");
  v1::ToolResult failed = ResultFor(actions.calls[0], v1::OUTCOME_FAILED);
  failed.set_tests_total(2), failed.set_tests_passed(1);
  actions = episode.OnResult(failed, 2);
  EXPECT_TRUE(actions.generate);
  actions = episode.OnTurn(Turn(1), 3);
  v1::ToolResult passed = ResultFor(actions.calls[0]);
  passed.set_tests_total(2), passed.set_tests_passed(2);
  EXPECT_TRUE(episode.OnResult(passed, 4).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_EQ(trajectory.turns_size(), 2);
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_SUBMITTED);
}

TEST_F(EpisodeTest, NonsenseInTheLastTurnIsTheAgentsFailure) {
  Episode episode = Make();
  (void)episode.Begin(0);
  EXPECT_TRUE(episode.OnTurn(Turn(9), 1).generate);
  EXPECT_TRUE(episode.OnTurn(Turn(9), 2).generate);
  EXPECT_TRUE(episode.OnTurn(Turn(9), 3).finished);
  EXPECT_EQ(episode.TakeTrajectory().end(), v1::EPISODE_END_MALFORMED);
}

TEST_F(EpisodeTest, APromptThatIsWrittenAnewIsABranch) {
  protocol_.next = NextPrompt{.ids = {5, 5, 6}, .anew = true};
  group_->max_context = 7;  // the branch and a turn fit, not all turns in a row
  Episode episode = Make();
  (void)episode.Begin(0);
  for (int turn = 0; turn < 2; ++turn) {
    const EpisodeActions actions = episode.OnTurn(Turn(9), 1);
    EXPECT_TRUE(actions.generate && actions.anew);
    EXPECT_EQ(actions.append, (std::vector<TokenId>{5, 5, 6}));
  }
  EXPECT_TRUE(episode.OnTurn(Turn(1), 3).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  ASSERT_EQ(trajectory.turns_size(), 3);
  EXPECT_EQ(trajectory.turns(0).prompt_ids_size(), 0);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(trajectory.turns(turn).observation_ids_size(), 0);
    EXPECT_EQ(trajectory.turns(turn + 1).prompt_ids_size(), 3);
  }
}

TEST_F(EpisodeTest, ATemplateThatRefusesIsOurFailure) {
  protocol_.next = Invalid("roles must alternate");
  Episode episode = Make();
  (void)episode.Begin(0);
  EXPECT_TRUE(episode.OnTurn(Turn(9), 1).finished);
  EXPECT_EQ(episode.TakeTrajectory().stale_cause(), "prompt: roles must alternate");
  group_->prompted = Invalid("no system messages");
  Episode never = Make();
  EXPECT_TRUE(never.Begin(0).finished);
  EXPECT_EQ(never.TakeTrajectory().stale_cause(), "prompt: no system messages");
}

TEST_F(EpisodeTest, AnObservationThatDoesNotFitEndsTheEpisodeByContext) {
  group_->max_context = 5;  // prompt 2, turn 2, observation 1, and no token left
  Episode episode = Make();
  (void)episode.Begin(0);
  EXPECT_TRUE(episode.OnTurn(Turn(9), 1).finished);
  EXPECT_EQ(episode.TakeTrajectory().end(), v1::EPISODE_END_CONTEXT);
}

}  // namespace
}  // namespace tidemill
