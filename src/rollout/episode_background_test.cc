// Episodes whose tools run while they go on: early calls, background calls, delivery.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.h"
#include "rollout/episode.h"
#include "testing/scripted_talk.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenId kAnswer = 1, kNonsense = 9;

ScriptedWords Words() {
  return {.calls = {{20, {"compile", "{}"}},
                    {21, {"lint", "{}"}},
                    {22, {"write_file", "{}"}},
                    {30, {"run_tests", R"({"background":true})"}},
                    {31, {"format", "{}"}},
                    {40, {"wait", "{}"}},
                    {41, {"wait", R"({"for":"all","timeout_s":5})"}},
                    {42, {"cancel", R"({"handles":["b1"]})"}},
                    {43, {"jobs", "{}"}}},
          .nonsense = kNonsense};
}

v1::File FileOf(const std::string& path, const std::string& content) {
  v1::File file;
  file.set_path(path), file.set_content(content), file.set_has_content(true);
  file.set_hash(Sha256Hex(content));
  return file;
}

class EpisodeBackgroundTest : public testing::Test {
 protected:
  EpisodeBackgroundTest() {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease.set_group(7);
    group->lease.set_members(1);
    group->lease.set_max_turns(4);
    group->lease.mutable_sampling()->set_temperature(1);
    group->lease.mutable_task()->set_id("t");
    *group->lease.mutable_task()->add_files() = FileOf("a.c", "1");
    group->prompt = {5};
    group->max_context = 1000;
    group->worker = "w";
    group_ = group;
    limits_.background["run_tests"] = {.use = BackgroundUse::kAllowed};
    limits_.background["format"] = {.use = BackgroundUse::kAlways, .keeps_files = true};
  }
  void Begin() {
    episode_ = std::make_unique<Episode>(group_, 0, protocol_, limits_, 1000);
    EXPECT_TRUE(episode_->Begin(1000).generate);
  }
  static TurnOutput Part(const std::vector<TokenId>& ids, TurnFinish finish = TurnFinish::kStop) {
    TurnOutput output;
    output.ids = ids;
    output.logprobs.assign(ids.size(), -1);
    output.versions = {{1, static_cast<uint32_t>(ids.size())}};
    output.finish = finish;
    return output;
  }
  EpisodeActions Draw(const std::vector<TokenId>& ids, int64_t now_ms) {
    return episode_->OnTokens(Part(ids), false, now_ms);
  }
  EpisodeActions End(const std::vector<TokenId>& ids, int64_t now_ms,
                     TurnFinish finish = TurnFinish::kStop) {
    return episode_->OnTokens(Part(ids, finish), true, now_ms);
  }
  EpisodeActions Answer(const ToolCallOrder& order, const std::string& text, int64_t now_ms,
                        v1::Outcome outcome = v1::OUTCOME_OK) {
    v1::ToolResult result;
    result.set_request_id(order.request.request_id());
    result.set_outcome(outcome);
    result.set_text(text);
    *result.mutable_tree() = order.request.tree();
    return episode_->OnResult(result, now_ms);
  }
  static std::vector<std::string> Tools(const EpisodeActions& actions) {
    std::vector<std::string> tools;
    for (const ToolCallOrder& call : actions.calls) tools.push_back(call.request.tool());
    return tools;
  }
  const TurnReplies& last() const { return said_.back(); }

  std::shared_ptr<EpisodeGroup> group_;
  std::vector<TurnReplies> said_;
  ScriptedProtocol protocol_{Words(), &said_};
  EpisodeLimits limits_;
  std::unique_ptr<Episode> episode_;
};

TEST_F(EpisodeBackgroundTest, ACallBeginsWithItsLastTokenAndIsNotSentAgain) {
  Begin();
  EXPECT_TRUE(episode_->streams());
  EXPECT_THAT(Draw({7, 8}, 1010).calls, IsEmpty());
  const EpisodeActions early = Draw({20, 8}, 1020);
  ASSERT_THAT(Tools(early), ElementsAre("compile"));
  EXPECT_EQ(early.calls[0].request.request_id(), "7.0.1.t1.c0@w#0");
  const EpisodeActions second = Draw({21}, 1030);
  ASSERT_THAT(Tools(second), ElementsAre("lint"));
  EXPECT_THAT(Answer(early.calls[0], "compiled", 1040).calls, IsEmpty());
  EpisodeActions end = End({0}, 1050);
  EXPECT_THAT(end.calls, IsEmpty());
  EXPECT_THAT(end.cancels, IsEmpty());
  EXPECT_FALSE(end.generate) << "lint is still at work";
  end = Answer(second.calls[0], "clean", 1060);
  EXPECT_TRUE(end.generate);
  ASSERT_EQ(last().results.size(), 2u);
  EXPECT_EQ(last().results[0].text(), "compiled");
  EXPECT_EQ(last().results[1].text(), "clean");
  EXPECT_TRUE(End({kAnswer}, 1070).finished);
  const v1::Trajectory trajectory = episode_->TakeTrajectory();
  const v1::ToolCall& call = trajectory.turns(0).calls(0);
  EXPECT_EQ(call.asked_token(), 4u);
  EXPECT_EQ(call.asked_ms(), 1020);
  EXPECT_EQ(call.answered_ms(), 1040);
  EXPECT_THAT(trajectory.turns(0).ids(), ElementsAre(7, 8, 20, 8, 21, 0));
  EXPECT_EQ(trajectory.time().generating_ms(), 50 + 10);
  EXPECT_EQ(trajectory.time().tool_ms(), 10) << "while the turn was drawn nobody waited";
}

TEST_F(EpisodeBackgroundTest, NothingBeginsEarlyBehindACallThatChangesFiles) {
  Begin();
  EXPECT_THAT(Tools(Draw({20, 22, 21}, 1010)), ElementsAre("compile"));
  limits_.eager = false;
  Begin();
  EXPECT_FALSE(episode_->streams());
}

TEST_F(EpisodeBackgroundTest, WhatTheTurnTakesBackIsCancelledAndCostsNothing) {
  for (const bool malformed : {true, false}) {
    Begin();
    const EpisodeActions early = Draw({20}, 1010);
    ASSERT_EQ(early.calls.size(), 1u);
    const std::string id = early.calls[0].request.request_id();
    EXPECT_TRUE(episode_->WaitsFor(id));
    const EpisodeActions end =
        malformed ? End({kNonsense, 0}, 1020) : End({8}, 1020, TurnFinish::kLength);
    EXPECT_THAT(end.cancels, ElementsAre(id));
    EXPECT_FALSE(episode_->WaitsFor(id));
    if (malformed) {
      EXPECT_TRUE(end.generate);
      EXPECT_FALSE(Answer(early.calls[0], "late", 1030).generate);
      EXPECT_TRUE(End({kAnswer}, 1040).finished);
    }
    const v1::Trajectory trajectory = episode_->TakeTrajectory();
    EXPECT_EQ(trajectory.turns(0).calls_size(), 0);
    EXPECT_EQ(trajectory.time().tool_ms(), 0);
  }
}

TEST_F(EpisodeBackgroundTest, AnEarlyCallThatFailsThroughUsCountsWhenItsTurnDoes) {
  limits_.tool_retries = 1;
  Begin();
  EpisodeActions actions = Draw({20}, 1010);
  actions = Answer(actions.calls[0], "", 1020, v1::OUTCOME_UNAVAILABLE);
  ASSERT_EQ(actions.calls.size(), 1u);
  EXPECT_GT(actions.calls[0].delay.count(), 0);
  EXPECT_FALSE(Answer(actions.calls[0], "", 1030, v1::OUTCOME_UNAVAILABLE).finished);
  EXPECT_TRUE(End({0}, 1040).finished);
  EXPECT_EQ(episode_->TakeTrajectory().end(), v1::EPISODE_END_GIVEN_UP);
}

TEST_F(EpisodeBackgroundTest, ABackgroundCallGivesAHandleAndItsResultComesWithALaterTurn) {
  limits_.eager = false;
  Begin();
  EpisodeActions first = episode_->OnTurn(Part({30, 0}), 1100);
  ASSERT_THAT(Tools(first), ElementsAre("run_tests"));
  EXPECT_EQ(first.calls[0].request.arguments_json(), "{}");
  EXPECT_TRUE(first.calls[0].request.background());
  EXPECT_TRUE(first.generate) << "the agent goes on";
  EXPECT_THAT(last().handles, ElementsAre("b1"));
  EXPECT_THAT(last().results[0].text(), HasSubstr("b1: run_tests runs in the background"));
  // The second turn ends before the result is there, the third after.
  EpisodeActions second = episode_->OnTurn(Part({20, 0}), 1200);
  EXPECT_FALSE(Answer(second.calls[0], "compiled", 1250).finished);
  EXPECT_THAT(last().delivered, IsEmpty());
  EXPECT_FALSE(Answer(first.calls[0], "2/2 tests", 1300).generate) << "a turn is being drawn";
  EpisodeActions third = episode_->OnTurn(Part({20, 0}), 1400);
  EXPECT_TRUE(Answer(third.calls[0], "compiled", 1450).generate);
  ASSERT_EQ(last().delivered.size(), 1u);
  EXPECT_EQ(last().delivered[0].handle, "b1");
  EXPECT_EQ(last().delivered[0].text, "2/2 tests");
  EXPECT_TRUE(episode_->OnTurn(Part({kAnswer, 0}), 1500).finished);
  const v1::Trajectory trajectory = episode_->TakeTrajectory();
  EXPECT_EQ(trajectory.turns(0).calls(0).handle(), "b1");
  EXPECT_EQ(trajectory.turns(0).calls(0).text(), "2/2 tests");
  EXPECT_EQ(trajectory.turns(0).calls(0).wait_ms(), 200);
  EXPECT_THAT(trajectory.turns(0).delivered(), IsEmpty());
  EXPECT_THAT(trajectory.turns(2).delivered(), ElementsAre("b1"));
  EXPECT_EQ(trajectory.time().generating_ms(), 100 + 100 + 150 + 50);
  EXPECT_EQ(trajectory.time().tool_ms(), 50 + 50);
}

TEST_F(EpisodeBackgroundTest, AWaitHoldsTheTurnUntilAResultIsThere) {
  limits_.eager = false;
  Begin();
  const EpisodeActions first = episode_->OnTurn(Part({30, 0}), 1100);
  const EpisodeActions second = episode_->OnTurn(Part({40, 0}), 1200);
  EXPECT_FALSE(second.generate);
  const EpisodeActions third = Answer(first.calls[0], "passed", 2100);
  EXPECT_TRUE(third.generate);
  EXPECT_EQ(last().results[0].text(), "b1 (run_tests): finished, its result follows");
  EXPECT_EQ(last().delivered[0].text, "passed");
  EXPECT_TRUE(episode_->OnTurn(Part({kAnswer, 0}), 2200).finished);
  EXPECT_EQ(episode_->TakeTrajectory().time().tool_ms(), 900);
}

TEST_F(EpisodeBackgroundTest, AWaitEndsAtItsLimit) {
  limits_.eager = false;
  Begin();
  (void)episode_->OnTurn(Part({30, 0}), 1100);
  const EpisodeActions waits = episode_->OnTurn(Part({41, 0}), 1200);
  ASSERT_TRUE(waits.wake_in.has_value());
  EXPECT_EQ(*waits.wake_in, std::chrono::seconds(5));
  EXPECT_FALSE(episode_->OnTime(6199).generate);
  EXPECT_TRUE(episode_->OnTime(6200).generate);
  EXPECT_THAT(last().results[0].text(), HasSubstr("the time is over\nb1 (run_tests): runs"));
  EXPECT_THAT(last().delivered, IsEmpty());
}

TEST_F(EpisodeBackgroundTest, ACancelledCallIsNeverDelivered) {
  limits_.eager = false;
  Begin();
  const EpisodeActions first = episode_->OnTurn(Part({30, 0}), 1100);
  const EpisodeActions second = episode_->OnTurn(Part({42, 43, 0}), 1200);
  EXPECT_THAT(second.cancels, ElementsAre(first.calls[0].request.request_id()));
  EXPECT_EQ(last().results[0].text(), "b1 (run_tests): cancelled");
  EXPECT_EQ(last().results[1].text(), "nothing runs in the background");
  EXPECT_FALSE(Answer(first.calls[0], "late", 1300).generate);
  EXPECT_TRUE(episode_->OnTurn(Part({kAnswer, 0}), 1400).finished);
  const v1::Trajectory trajectory = episode_->TakeTrajectory();
  EXPECT_TRUE(trajectory.turns(0).calls(0).cancelled());
  EXPECT_EQ(trajectory.turns(0).calls(0).answered_ms(), 0);
  EXPECT_EQ(trajectory.time().tool_ms(), 0);
}

TEST_F(EpisodeBackgroundTest, WhatRunsAtTheEndIsCancelledOrAwaited) {
  limits_.eager = false;
  for (const bool await : {false, true}) {
    limits_.on_submit = await ? "wait" : "cancel";
    Begin();
    const EpisodeActions first = episode_->OnTurn(Part({31, 0}), 1100);
    ASSERT_EQ(first.calls.size(), 1u);
    const EpisodeActions end = episode_->OnTurn(Part({kAnswer, 0}), 1200);
    EXPECT_EQ(end.finished, !await);
    EXPECT_EQ(end.cancels.size(), await ? 0u : 1u);
    if (await) {
      v1::ToolResult result;
      result.set_request_id(first.calls[0].request.request_id());
      result.set_outcome(v1::OUTCOME_OK);
      *result.mutable_tree()->add_files() = FileOf("a.c", "formatted");
      EXPECT_TRUE(episode_->OnResult(result, 1500).finished);
    }
    const v1::Trajectory trajectory = episode_->TakeTrajectory();
    EXPECT_EQ(trajectory.end(), v1::EPISODE_END_SUBMITTED);
    EXPECT_EQ(trajectory.turns(0).calls(0).cancelled(), !await);
    EXPECT_EQ(trajectory.tree().files(0).content(), await ? "formatted" : "1");
    EXPECT_EQ(trajectory.finished_ms(), await ? 1500 : 1200);
  }
}

TEST_F(EpisodeBackgroundTest, WithDeliverNowAResultEndsTheTurnAndNoTokenIsLost) {
  limits_.deliver = "now";
  Begin();
  const EpisodeActions first = Draw({30}, 1010);
  ASSERT_EQ(first.calls.size(), 1u) << "it begins with its last token, in the background, too";
  EXPECT_TRUE(End({0}, 1020).generate);
  EXPECT_FALSE(Draw({7, 7}, 1030).interrupt);
  EXPECT_TRUE(Answer(first.calls[0], "passed", 1040).interrupt);
  EXPECT_FALSE(Draw({8}, 1050).interrupt) << "once is enough";
  const EpisodeActions cut = End({8}, 1060, TurnFinish::kInterrupted);
  EXPECT_TRUE(cut.generate);
  EXPECT_EQ(cut.append, std::vector<TokenId>{6});
  EXPECT_EQ(last().delivered[0].text, "passed");
  // As many turns as the lease says are left: it was not the agent who ended that one.
  for (int turn = 0; turn < 2; ++turn) {
    EpisodeActions more = End({43, 0}, 1070);
    EXPECT_TRUE(more.generate);
  }
  EXPECT_TRUE(End({43, 0}, 1080).finished);
  const v1::Trajectory trajectory = episode_->TakeTrajectory();
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_MAX_TURNS);
  EXPECT_EQ(trajectory.turns(1).end(), v1::TURN_END_INTERRUPTED);
  EXPECT_THAT(trajectory.turns(1).ids(), ElementsAre(7, 7, 8, 8));
  EXPECT_EQ(trajectory.turns(1).logprobs_size(), 4);
  EXPECT_THAT(trajectory.turns(1).delivered(), ElementsAre("b1"));
  EXPECT_EQ(trajectory.turns_size(), 5);
}

TEST_F(EpisodeBackgroundTest, AResultNeverCutsACallThatIsBeingWritten) {
  limits_.deliver = "now";
  Begin();
  const EpisodeActions first = Draw({30}, 1010);
  (void)End({0}, 1020);
  (void)Draw({20}, 1030);
  EXPECT_FALSE(Answer(first.calls[0], "passed", 1040).interrupt);
  EXPECT_FALSE(Draw({8}, 1050).interrupt);
}

TEST_F(EpisodeBackgroundTest, AResultThatCameBeforeTheFirstTokenEndsTheTurnBehindIt) {
  limits_.deliver = "now";
  Begin();
  const EpisodeActions first = Draw({30}, 1010);
  (void)End({0}, 1020);
  EXPECT_FALSE(Answer(first.calls[0], "passed", 1030).interrupt);
  EXPECT_TRUE(Draw({8}, 1040).interrupt);
}

TEST_F(EpisodeBackgroundTest, TenThousandJobsCostTheEpisodeItsCallsAndNothingElse) {
  limits_.eager = false;
  limits_.jobs.jobs = 3;
  group_->max_context = 100'000;
  limits_.calls_per_turn = 5;
  Begin();
  const EpisodeActions actions = episode_->OnTurn(Part(std::vector<TokenId>(10'000, 30)), 1100);
  EXPECT_EQ(actions.calls.size(), 3u);
  EXPECT_TRUE(actions.generate);
  EXPECT_THAT(last().results[3].text(), HasSubstr("refused: 3 calls run"));
  EXPECT_THAT(last().results[9'999].text(), HasSubstr("refused: at most 5 calls"));
}

}  // namespace
}  // namespace tidemill
