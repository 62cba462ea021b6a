// What the rollout loop does with messages that are not what they should be.
#include "rollout/rollout_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/bus_test_kit.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every turn asks for the compiler.
class AskingTalk final : public EpisodeTalk {
 public:
  explicit AskingTalk(bool anew) : anew_(anew) {}
  Result<std::vector<TokenId>> Open() const override { return std::vector<TokenId>{5, 5}; }
  ParsedTurn Parse(std::span<const TokenId>) override {
    ParsedTurn turn;
    turn.calls = {{"compile", "{}"}};
    return turn;
  }
  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies&, size_t) override {
    return NextPrompt{.ids = {6}, .anew = anew_};
  }
  Result<NextPrompt> Hear(const std::string&) override {
    return NextPrompt{.ids = {6}, .anew = anew_};
  }

 private:
  const bool anew_;
};

class AskingProtocol final : public AgentProtocol {
 public:
  bool anew = false;
  std::string_view name() const override { return "asking"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_; }
  bool ChecksAnswers() const override { return false; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening&) const override {
    return std::make_unique<AskingTalk>(anew);
  }

 private:
  std::vector<TokenId> stop_ = {0};
};

class StillEngine final : public EnginePort {
 public:
  void Start(SequenceStart start) override {
    started.push_back(start.id);
    prompts.push_back(start.prompt);
  }
  void Continue(SequenceId id, std::vector<TokenId>, TurnParams) override {
    continued.push_back(id);
  }
  void Release(SequenceId id) override { released.push_back(id); }
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  EngineStats Stats() const override { return {.generated_tokens = drawn}; }
  uint64_t version() const override { return 1; }
  void Finish(SequenceId id) {
    EngineEvent event;
    event.turn.id = id;
    event.turn.ids = {1, 0};
    event.turn.logprobs = {-1, -1};
    event.turn.versions = {{1, 2}};
    event.turn.finish = TurnFinish::kStop;
    events_.Post(std::move(event));
  }
  void Fail(SequenceId id) {
    EngineEvent event;
    event.turn.id = id;
    event.status = Unavailable("the device is lost");
    events_.Post(std::move(event));
  }
  uint64_t drawn = 0;
  std::vector<SequenceId> started, continued, released;
  std::vector<std::vector<TokenId>> prompts;

 private:
  TurnFeed feed_;
  Mailbox<EngineEvent> events_{100};
};

class RolloutLoopTest : public testing::Test {
 protected:
  RolloutLoopTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    options_.messages.members = 8;
    options_.secret = "of this worker";
    loop_ = std::make_unique<RolloutLoop>(bus_, engine_, protocol_, clock_, options_);
    loop_->Attach(waker_);
  }
  void Send(uint32_t members, const std::vector<std::string>& skills = {}) {
    v1::GroupLease lease;
    for (const std::string& name : skills) {
      if (lease.contexts().empty()) lease.add_contexts();
      v1::ShownSkill& skill = *lease.mutable_contexts(0)->add_skills();
      skill.mutable_skill()->set_name(name);
      skill.mutable_skill()->set_version(2);
      skill.set_text("text");
    }
    lease.set_group(7), lease.set_members(members), lease.set_max_turns(3);
    lease.mutable_task()->set_id("t");
    lease.set_purpose(v1::PURPOSE_TRAIN);
    lease.mutable_sampling()->set_temperature(1);
    lease.set_token("of the lease");
    EXPECT_TRUE(bus_.Publish(kGroupsTopic, lease.SerializeAsString()).ok());
    Step();
  }
  void Step() { (void)loop_->Step(clock_.Now()); }
  std::vector<std::string> Reasons() { return TakeDeadLetterReasons(bus_); }

  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  StillEngine engine_;
  AskingProtocol protocol_;
  RolloutOptions options_;
  std::unique_ptr<RolloutLoop> loop_;
};

TEST_F(RolloutLoopTest, ALeaseOnMoreEpisodesThanConfiguredTakesNoMemory) {
  Send(4294967295u);
  EXPECT_TRUE(engine_.started.empty());
  EXPECT_THAT(Reasons(), ElementsAre("GroupLease.members: 4294967295 is not between 1 and 8"));
  Send(8);
  EXPECT_EQ(engine_.started.size(), 8u);
}

TEST_F(RolloutLoopTest, AResultIsTakenOnlyFromWhoWasAsked) {
  Send(1);
  engine_.Finish(engine_.started.at(0));
  Step();
  const std::vector<Lease> asked = bus_.Receive(kToolsCompileTopic, 10).value();
  ASSERT_EQ(asked.size(), 1u);
  v1::ToolRequest request;
  ASSERT_TRUE(request.ParseFromString(asked[0].body));
  EXPECT_EQ(request.token().size(), 32u);
  EXPECT_NE(request.token(), request.cancel_token());
  v1::ToolResult result;
  result.set_request_id(request.request_id());
  *result.mutable_episode() = request.episode();
  result.set_outcome(v1::OUTCOME_OK);
  result.set_tests_passed(4), result.set_tests_total(4);
  for (const char* token : {"", "guessed"}) {
    result.set_token(token);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    Step();
    EXPECT_TRUE(engine_.continued.empty());
    EXPECT_THAT(Reasons(), ElementsAre(HasSubstr("not the token of request")));
  }
  result.set_token(request.token());
  result.set_tests_passed(5);
  EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
  Step();
  EXPECT_THAT(Reasons(), ElementsAre("ToolResult.tests_passed: 5 of 4"));
  EXPECT_TRUE(engine_.continued.empty());
  clock_.Advance(std::chrono::seconds(1));
  Step();
  const std::vector<Lease> again = bus_.Receive(kToolsCompileTopic, 10).value();
  ASSERT_EQ(again.size(), 1u) << "there will be no other answer to that request";
  ASSERT_TRUE(request.ParseFromString(again[0].body));
  EXPECT_NE(request.request_id(), result.request_id());
  result.set_request_id(request.request_id()), result.set_token(request.token());
  result.set_tests_passed(4);
  EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
  Step();
  EXPECT_EQ(engine_.continued.size(), 1u);
}

TEST_F(RolloutLoopTest, EachFailureCountsByItsKindThoughItIsTriedAgain) {
  Send(1);
  engine_.Finish(engine_.started.at(0));
  Step();
  const RolloutCounters& counters = loop_->counters();
  for (const v1::Outcome outcome : {v1::OUTCOME_UNAVAILABLE, v1::OUTCOME_OK}) {
    const std::vector<Lease> asked = bus_.Receive(kToolsCompileTopic, 10).value();
    ASSERT_EQ(asked.size(), 1u);
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(asked[0].body));
    v1::ToolResult result;
    result.set_request_id(request.request_id()), result.set_token(request.token());
    *result.mutable_episode() = request.episode();
    result.set_outcome(outcome);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    Step();
    clock_.Advance(std::chrono::seconds(10));
    Step();
  }
  EXPECT_EQ(engine_.continued.size(), 1u) << "the second try was right";
  EXPECT_EQ(counters.failures.of(Failure::kTool), 1u);
  EXPECT_EQ(counters.given_up, 0u);
  engine_.Fail(engine_.started.at(0));
  Step();
  EXPECT_EQ(counters.failures.of(Failure::kEngine), 1u);
  EXPECT_EQ(counters.failures.of(Failure::kTool), 1u);
  EXPECT_EQ(counters.given_up, 1u);
}

// A learner that goes on sends a group again that nobody reported on, under the same number.
TEST_F(RolloutLoopTest, AGroupThatComesTwiceAsksUnderOtherNames) {
  std::vector<v1::ToolRequest> first;
  for (int delivery = 0; delivery < 2; ++delivery) {
    Send(1);
    for (int turn = 0; turn < 3; ++turn) {
      engine_.Finish(engine_.started.back());
      Step();
      for (const Lease& lease : bus_.Receive(kToolsCompileTopic, 10).value()) {
        v1::ToolRequest request;
        ASSERT_TRUE(request.ParseFromString(lease.body));
        for (const v1::ToolRequest& earlier : first) {
          EXPECT_NE(request.request_id(), earlier.request_id());
          EXPECT_NE(request.cancel_token() == earlier.cancel_token(), delivery == 1);
        }
        if (delivery == 0) first.push_back(request);
        v1::ToolResult result;
        result.set_request_id(request.request_id()), result.set_token(request.token());
        *result.mutable_episode() = request.episode();
        result.set_outcome(v1::OUTCOME_OK);
        EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
      }
      Step();
    }
  }
  EXPECT_EQ(engine_.started.size(), 2u);
  EXPECT_FALSE(first.empty());
}

TEST_F(RolloutLoopTest, APromptThatIsWrittenAnewIsANewSequence) {
  protocol_.anew = true;
  Send(2);
  for (int turn = 0; turn < 2; ++turn) {
    engine_.Finish(engine_.started.back());
    Step();
    const std::vector<Lease> asked = bus_.Receive(kToolsCompileTopic, 10).value();
    ASSERT_EQ(asked.size(), 1u);
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(asked[0].body));
    v1::ToolResult result;
    result.set_request_id(request.request_id());
    *result.mutable_episode() = request.episode();
    result.set_outcome(v1::OUTCOME_OK);
    result.set_token(request.token());
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    Step();
  }
  EXPECT_THAT(engine_.started, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(engine_.released, ElementsAre(2, 3));
  EXPECT_EQ(engine_.prompts.back(), std::vector<TokenId>{6});
  EXPECT_TRUE(engine_.continued.empty());
  // Whoever is given up later is the sequence that runs.
  loop_->Drain();
  EXPECT_THAT(engine_.released, ElementsAre(2, 3, 1, 4));
}

TEST_F(RolloutLoopTest, AnInboxThatWasRemovedIsOpenedAgain) {
  Send(1);
  ASSERT_TRUE(bus_.Remove(InboxTopic("local", "rollout")).ok());
  engine_.Finish(engine_.started.at(0));
  Step(), Step();
  EXPECT_EQ(bus_.Receive(kToolsCompileTopic, 10)->size(), 1u);
  EXPECT_TRUE(bus_.Depth(InboxTopic("local", "rollout")).ok());
}

TEST_F(RolloutLoopTest, TokensCountAsTheyAreDrawnThoughNoTurnIsOver) {
  Send(1);
  engine_.drawn = 17;
  Step();
  EXPECT_EQ(loop_->counters().generated_tokens, 17u);
  EXPECT_EQ(loop_->counters().finished, 0u);
}

// Agents that are programs, answered by hand.
class StillAgents final : public AgentPort {
 public:
  void Start(AgentJob job, uint64_t tag) override {
    members.push_back(job.member);
    skills.push_back(job.group->CasesOf(job.member).skills_size());
    tags.push_back(tag);
  }
  void Cancel(uint64_t tag) override { cancelled.push_back(tag); }
  Mailbox<AgentDone>& events() override { return events_; }
  void Fail(uint64_t tag) {
    AgentDone done{tag, {}};
    done.outcome.status = Unavailable("the box was lost");
    done.outcome.log.set_text("half a line");
    events_.Post(std::move(done));
  }
  void Finish(uint64_t tag) {
    AgentDone done{tag, {}};
    done.outcome.end = v1::EPISODE_END_FAILED;
    for (const uint32_t first : {1u, 2u}) {
      v1::Trajectory& branch = done.outcome.branches.emplace_back();
      branch.add_prompt_ids(first);
      branch.mutable_sampling()->set_temperature(1);
      branch.add_turns()->add_ids(first + 10);
    }
    done.outcome.tree.add_files()->set_path("left.c");
    events_.Post(std::move(done));
  }
  void Crash(uint64_t tag) {
    AgentDone done{tag, {}};
    done.outcome.end = v1::EPISODE_END_FAILED;
    done.outcome.log.set_text("Traceback");
    events_.Post(std::move(done));
  }
  std::vector<uint32_t> members;
  std::vector<int> skills;  // of each member
  std::vector<uint64_t> tags, cancelled;

 private:
  Mailbox<AgentDone> events_{100};
};

class AgentRolloutTest : public RolloutLoopTest {
 protected:
  AgentRolloutTest() {
    loop_ = std::make_unique<RolloutLoop>(bus_, engine_, protocol_, clock_, options_, &agents_);
    loop_->Attach(waker_);
  }
  std::vector<v1::Trajectory> Trajectories() {
    std::vector<v1::Trajectory> all;
    for (const Lease& lease : bus_.Receive(kTrajectoriesTopic, 10).value()) {
      EXPECT_TRUE(all.emplace_back().ParseFromString(lease.body));
    }
    return all;
  }
  StillAgents agents_;
};

TEST_F(AgentRolloutTest, AProgramsFailureIsAResultWithItsBranchesAndItsFiles) {
  Send(2);
  ASSERT_THAT(agents_.members, ElementsAre(0u, 1u));
  agents_.Finish(agents_.tags[1]);
  Step();
  const auto done = Trajectories();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].id().member(), 1u);
  EXPECT_EQ(done[0].token(), "of the lease");
  EXPECT_EQ(done[0].end(), v1::EPISODE_END_FAILED);
  ASSERT_EQ(done[0].turns_size(), 2);
  EXPECT_THAT(done[0].prompt_ids(), ElementsAre(1u));
  EXPECT_TRUE(done[0].turns(0).prompt_ids().empty());
  EXPECT_THAT(done[0].turns(1).prompt_ids(), ElementsAre(2u));
  EXPECT_EQ(done[0].tree().files(0).path(), "left.c");
  EXPECT_TRUE(engine_.started.empty());
  EXPECT_EQ(bus_.Depth(kGroupsTopic)->leased, 1u) << "the other member is not done";
}

// Its prompt has no skills, and so no bound of tokens takes one away.
TEST_F(AgentRolloutTest, AProgramGetsEverySkillOfItsMemberAndItsTrajectoryNamesThem) {
  Send(2, {"first", "second"});
  EXPECT_THAT(agents_.skills, ElementsAre(2, 0));
  agents_.Finish(agents_.tags[0]);
  agents_.Finish(agents_.tags[1]);
  Step();
  const auto done = Trajectories();
  ASSERT_EQ(done.size(), 2u);
  ASSERT_EQ(done[0].shown_skills_size(), 2);
  EXPECT_EQ(done[0].shown_skills(1).name(), "second");
  EXPECT_EQ(done[0].shown_skills(1).version(), 2u);
  EXPECT_TRUE(done[1].shown_skills().empty());
}

TEST_F(AgentRolloutTest, AFailureOfOursIsTriedAgainAndThenTheEpisodeIsStale) {
  Send(1);
  for (uint32_t i = 0; i <= options_.limits.tool_retries; ++i) {
    ASSERT_EQ(agents_.tags.size(), i + 1);
    EXPECT_TRUE(Trajectories().empty());
    agents_.Fail(agents_.tags[i]);
    Step();
    clock_.Advance(std::chrono::seconds(10));
    Step();
  }
  EXPECT_EQ(loop_->counters().agent_retries, options_.limits.tool_retries);
  EXPECT_EQ(loop_->counters().failures.of(Failure::kAgent), options_.limits.tool_retries + 1);
  const auto done = Trajectories();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].end(), v1::EPISODE_END_GIVEN_UP);
  EXPECT_THAT(done[0].stale_cause(), HasSubstr("the box was lost"));
  EXPECT_EQ(done[0].log().text(), "half a line") << "what the last attempt printed";
  EXPECT_TRUE(done[0].prompt_ids().empty());
}

TEST_F(AgentRolloutTest, AProgramThatAskedNothingLeavesItsLogAndNoPromptThatNobodySent) {
  Send(1);
  agents_.Crash(agents_.tags.at(0));
  Step();
  const auto done = Trajectories();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].log().text(), "Traceback");
  EXPECT_TRUE(done[0].prompt_ids().empty());
  EXPECT_TRUE(done[0].turns().empty());
}

TEST_F(AgentRolloutTest, ALoopThatDrainsEndsItsProgramsAndGivesTheGroupBack) {
  Send(1);
  loop_->Drain();
  EXPECT_THAT(agents_.cancelled, ElementsAre(agents_.tags.at(0)));
  EXPECT_EQ(bus_.Depth(kGroupsTopic)->ready, 1u);
}

}  // namespace
}  // namespace tidemill
