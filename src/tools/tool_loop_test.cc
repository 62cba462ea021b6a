#include "tools/tool_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/hash.h"
#include "core/topics.h"
#include "testing/tool_fixture.h"
#include "tools/tool_cache.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

constexpr Duration kLease = std::chrono::seconds(3);

// Answers when the test says so.
class HandPort final : public ToolPort {
 public:
  size_t capacity(ToolLane) const override { return 2; }
  void Submit(v1::ToolRequest request, uint64_t tag) override {
    asked.emplace_back(std::move(request), tag);
  }
  void Cancel(const v1::TrajectoryId& episode) override { cancelled.push_back(episode.task()); }
  void CancelOne(uint64_t tag) override { cancelled_tags.push_back(tag); }
  Mailbox<ToolCompletion>& completions() override { return completions_; }

  void Answer(size_t index, v1::Outcome outcome = v1::OUTCOME_OK) {
    v1::ToolResult result;
    result.set_outcome(outcome);
    result.set_text("answer");
    completions_.Post({asked[index].second, result});
  }

  std::vector<std::pair<v1::ToolRequest, uint64_t>> asked;
  std::vector<std::string> cancelled;
  std::vector<uint64_t> cancelled_tags;

 private:
  Mailbox<ToolCompletion> completions_{64};
};

class ToolLoopTest : public ::testing::Test {
 protected:
  ToolLoopTest() : bus_(clock_) {
    TopicPlan plan;
    plan.lease = kLease;
    EXPECT_TRUE(OpenStandardTopics(bus_, plan).ok());
    EXPECT_TRUE(bus_.Open("inbox", {}).ok());
    loop_ = NewLoop(port_);
  }
  std::unique_ptr<ToolLoop> NewLoop(ToolPort& port) {
    ToolLoopOptions options;
    options.worker = "w";
    options.lease_period = kLease / 3;
    auto loop = std::make_unique<ToolLoop>(bus_, port, options);
    loop->Attach(waker_);
    return loop;
  }
  static v1::TrajectoryId EpisodeOf(const std::string& id) {
    v1::TrajectoryId episode;
    episode.set_task("task of " + id), episode.set_group(1), episode.set_attempt(1);
    return episode;
  }
  void Cancel(const std::string& id, const std::string& token) {
    v1::ToolCancel cancel;
    *cancel.mutable_episode() = EpisodeOf(id);
    cancel.set_token(token);
    ASSERT_TRUE(bus_.Publish(ToolCancelTopic("w"), cancel.SerializeAsString()).ok());
  }
  void Ask(const std::string& id, const std::string& tool = "compile",
           const std::string& content = "") {
    v1::ToolRequest request;
    request.set_request_id(id);
    request.set_tool(tool);
    request.set_arguments_json(content.empty() ? id : content);
    request.set_reply_to("inbox");
    *request.mutable_episode() = EpisodeOf(id);
    request.set_token("token of " + id), request.set_cancel_token("cancel " + id);
    ASSERT_TRUE(bus_.PublishRequest(ToolTopic(tool), "inbox", request.SerializeAsString()).ok());
  }
  void Step() { (void)loop_->Step(clock_.Now()); }
  std::vector<v1::ToolResult> Answers() {
    std::vector<v1::ToolResult> results;
    for (const Lease& lease : *bus_.Receive("inbox", 100)) {
      EXPECT_TRUE(results.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return results;
  }

  VirtualClock clock_;
  MemoryBus bus_;
  QuietWaker waker_;
  HandPort port_;
  std::unique_ptr<ToolLoop> loop_;
};

TEST_F(ToolLoopTest, AnswersAndAcknowledges) {
  Ask("a");
  Step();
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_EQ(Answers().size(), 0u);
  port_.Answer(0);
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].request_id(), "a");
  EXPECT_EQ(answers[0].episode().task(), "task of a");
  EXPECT_EQ(answers[0].worker(), "w");
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->leased, 0u);
}

TEST_F(ToolLoopTest, TakesNoMoreThanThereAreSlotsAndGradingsHaveTheirOwn) {
  for (int i = 0; i < 5; ++i) Ask("c" + std::to_string(i));
  for (int i = 0; i < 5; ++i) Ask("g" + std::to_string(i), "grade");
  Step();
  EXPECT_EQ(port_.asked.size(), 4u);
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->ready, 3u);
  EXPECT_EQ(bus_.Depth(kToolsGradeTopic)->ready, 3u);
}

TEST_F(ToolLoopTest, LeasesAreProlongedWhileAToolRuns) {
  Ask("a");
  Step();
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(std::chrono::seconds(1));
    bus_.Poll();
    Step();
  }
  EXPECT_EQ(port_.asked.size(), 1u);
  port_.Answer(0);
  Step();
  EXPECT_EQ(Answers().size(), 1u);
}

TEST_F(ToolLoopTest, ASecondDeliveryOfAFinishedRequestGetsTheStoredResult) {
  Ask("a", "bash");  // the cache does not know a shell's results
  Step();
  port_.Answer(0);
  Step();
  EXPECT_EQ(Answers().size(), 1u);
  Ask("a", "bash");
  Step();
  EXPECT_EQ(port_.asked.size(), 1u);
  EXPECT_EQ(Answers().size(), 1u);
  EXPECT_EQ(loop_->counters().repeated, 1u);
}

TEST_F(ToolLoopTest, ASecondDeliveryOfWhatRunsIsNotRunTwice) {
  Ask("a");
  Step();
  clock_.Advance(kLease * 2);  // nobody stepped us: the lease ran out
  bus_.Poll();
  Step();
  EXPECT_EQ(port_.asked.size(), 1u);
  port_.Answer(0);
  Step();
  EXPECT_EQ(Answers().size(), 1u);
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->ready + bus_.Depth(kToolsCompileTopic)->leased, 0u);
}

TEST_F(ToolLoopTest, AFailureOfOursIsAnsweredButNotKept) {
  Ask("a");
  Step();
  port_.Answer(0, v1::OUTCOME_UNAVAILABLE);
  Step();
  EXPECT_EQ(Answers().size(), 1u);
  Ask("a");
  Step();
  EXPECT_EQ(port_.asked.size(), 2u);
}

TEST_F(ToolLoopTest, IdenticalRequestsAreAnsweredFromTheCache) {
  Ask("a", "compile", "same");
  // The hash covers tool, arguments, files and limits, not who asks.
  Step();
  port_.Answer(0);
  Step();
  Ask("b", "compile", "same");
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_FALSE(answers[0].cached());
  EXPECT_TRUE(answers[1].cached());
  EXPECT_EQ(answers[1].request_id(), "b");
  EXPECT_EQ(answers[1].episode().task(), "task of b");
  EXPECT_EQ(loop_->counters().cache_hits, 1u);
}

// A worker that lies about what a file holds would have its result given to those who send that.
TEST(ToolCache, AFileCountsByWhatItHoldsAndNotByWhatItsSenderSays) {
  v1::ToolRequest honest, forged;
  for (v1::ToolRequest* request : {&honest, &forged}) {
    request->set_tool("grade");
    v1::File& file = *request->mutable_tree()->add_files();
    file.set_path("solution.c");
    file.set_has_content(true);
    file.set_content(request == &honest ? "int f;" : "int g;");
    file.set_hash(Sha256Hex("int f;"));
  }
  EXPECT_NE(ToolRequestHash(forged), ToolRequestHash(honest));
  // By its hash alone, or inside: the same file.
  v1::ToolRequest stored = honest;
  stored.mutable_tree()->mutable_files(0)->clear_content();
  stored.mutable_tree()->mutable_files(0)->set_has_content(false);
  EXPECT_EQ(ToolRequestHash(stored), ToolRequestHash(honest));
}

TEST_F(ToolLoopTest, IdenticalRequestsAtTheSameTimeShareOneRun) {
  for (const char* id : {"a", "b", "c", "d"}) Ask(id, "compile", "same");
  Step();
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->leased, 4u);
  port_.Answer(0);
  Step();
  EXPECT_EQ(Answers().size(), 4u);
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->leased, 0u);
  EXPECT_EQ(loop_->counters().joined, 3u);
}

// The same command in the same files may do something else the second time.
TEST_F(ToolLoopTest, CallsOfAShellAreNeitherSharedNorCached) {
  Ask("a", "bash", "same");
  Ask("b", "bash", "same");
  Step();
  ASSERT_EQ(port_.asked.size(), 2u);
  port_.Answer(0), port_.Answer(1);
  Step();
  EXPECT_EQ(Answers().size(), 2u);
  Ask("c", "bash", "same");
  Step();
  EXPECT_EQ(port_.asked.size(), 3u);
}

TEST_F(ToolLoopTest, CallsForTheBoxesOfThisWorkerComeByItsOwnTopic) {
  v1::ToolRequest request;
  request.set_request_id("a");
  request.set_tool("bash");
  request.set_reply_to("inbox");
  request.set_box_holder("w");
  *request.mutable_episode() = EpisodeOf("a");
  ASSERT_TRUE(bus_.PublishRequest(ToolBoxTopic("w"), "inbox", request.SerializeAsString()).ok());
  Step();
  ASSERT_EQ(port_.asked.size(), 1u);
  port_.Answer(0);
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].worker(), "w");
}

TEST_F(ToolLoopTest, ACancelledEpisodesCallsAreNotRun) {
  Cancel("a", "cancel a");
  Ask("a");
  Step();
  EXPECT_EQ(port_.asked.size(), 0u);
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].outcome(), v1::OUTCOME_UNAVAILABLE);
}

TEST_F(ToolLoopTest, OnlyWhoAskedCanCancelWhatRuns) {
  Ask("a");
  Step();
  Cancel("a", "guessed");
  Step();
  EXPECT_TRUE(port_.cancelled.empty());
  Cancel("a", "cancel a");
  Step();
  EXPECT_THAT(port_.cancelled, testing::ElementsAre("task of a"));
}

TEST_F(ToolLoopTest, OneCallIsCancelledWhereNobodyElseWantsItsWork) {
  Ask("shared", "compile", "the same"), Ask("other", "compile", "the same");
  Ask("a");
  Step();
  ASSERT_EQ(port_.asked.size(), 2u);
  const auto cancel = [this](const std::string& id, const std::string& token) {
    v1::ToolCancel one;
    *one.mutable_episode() = EpisodeOf(id);
    one.set_token(token);
    one.add_request_ids(id), one.add_request_ids("not yet " + id);
    ASSERT_TRUE(bus_.Publish(ToolCancelTopic("w"), one.SerializeAsString()).ok());
    Step();
  };
  cancel("a", "guessed");
  EXPECT_TRUE(port_.cancelled_tags.empty());
  cancel("shared", "cancel shared");
  EXPECT_TRUE(port_.cancelled_tags.empty()) << "another episode waits for the same run";
  cancel("a", "cancel a");
  EXPECT_THAT(port_.cancelled_tags, testing::ElementsAre(port_.asked[1].second));
  EXPECT_TRUE(port_.cancelled.empty()) << "the episode goes on";
  // One that was cancelled before it came is not run; others of the episode are.
  v1::ToolRequest late;
  late.set_tool("compile"), late.set_reply_to("inbox"), late.set_cancel_token("cancel a");
  *late.mutable_episode() = EpisodeOf("a");
  for (const char* id : {"not yet a", "another of a"}) {
    late.set_request_id(id), late.set_arguments_json(id);
    ASSERT_TRUE(bus_.PublishRequest(kToolsCompileTopic, "inbox", late.SerializeAsString()).ok());
  }
  port_.Answer(0), port_.Answer(1);
  Step();
  ASSERT_EQ(port_.asked.size(), 3u);
  EXPECT_EQ(port_.asked[2].first.request_id(), "another of a");
}

TEST_F(ToolLoopTest, AResultOfBeforeIsGivenOnlyToWhoKnowsItsToken) {
  Ask("a");
  Step();
  port_.Answer(0);
  Step();
  EXPECT_EQ(Answers().at(0).token(), "token of a");
  v1::ToolRequest curious;
  curious.set_request_id("a"), curious.set_tool("compile"), curious.set_reply_to("inbox");
  curious.set_token("guessed");
  *curious.mutable_episode() = EpisodeOf("another");
  ASSERT_TRUE(bus_.PublishRequest(kToolsCompileTopic, "inbox", curious.SerializeAsString()).ok());
  Step();
  EXPECT_TRUE(Answers().empty());
  EXPECT_EQ(port_.asked.size(), 2u) << "it is a question of its own";
}

// A group that is delivered again, or a learner that goes on, may name another question as before.
TEST_F(ToolLoopTest, AnotherQuestionOfTheSameNameIsNotAnsweredWithTheResultOfBefore) {
  Ask("a");
  Step();
  Ask("a", "compile", "something else");
  Step();
  ASSERT_EQ(port_.asked.size(), 2u) << "nor with what runs";
  port_.Answer(0), port_.Answer(1);
  Step();
  EXPECT_EQ(Answers().size(), 2u);
  Ask("a", "compile", "a third one");
  Step();
  EXPECT_EQ(port_.asked.size(), 3u);
  EXPECT_TRUE(Answers().empty());
  Ask("a");
  Step();
  EXPECT_EQ(port_.asked.size(), 3u) << "the message of before, once more";
  EXPECT_EQ(Answers().size(), 1u);
}

TEST_F(ToolLoopTest, AddedWaitingDelaysAgentsCallsButNotGradings) {
  ToolLoopOptions options;
  options.wait = std::chrono::seconds(1);
  options.wait_tail = std::chrono::seconds(30);
  loop_ = std::make_unique<ToolLoop>(bus_, port_, options);
  loop_->Attach(waker_);
  Ask("slow");
  Ask("graded", "grade");
  Step();
  ASSERT_EQ(port_.asked.size(), 1u);
  EXPECT_EQ(port_.asked[0].first.request_id(), "graded");
  clock_.Advance(AddedWait{options.wait, options.wait_tail}.Of("slow"));
  Step();
  ASSERT_EQ(port_.asked.size(), 2u);
  EXPECT_EQ(port_.asked[1].first.request_id(), "slow");
}

TEST(AddedWait, HasTheMedianAndTheTailAskedFor) {
  const AddedWait wait{.median = milliseconds(200), .tail = std::chrono::seconds(5)};
  int below = 0, near_tail = 0;
  for (int i = 0; i < 20000; ++i) {
    const Duration one = wait.Of("request " + std::to_string(i));
    EXPECT_LE(one, wait.tail);
    below += one < wait.median;
    near_tail += one >= milliseconds(4900);
  }
  EXPECT_NEAR(below, 10000, 400);
  EXPECT_GT(near_tail, 5);
  EXPECT_LT(near_tail, 60);
  EXPECT_EQ(AddedWait{}.Of("x"), Duration(0));
}

TEST_F(ToolLoopTest, WhatIsNoRequestIsADeadLetter) {
  ASSERT_TRUE(bus_.Publish(kToolsCompileTopic, "\xff\xff nonsense").ok());
  ASSERT_TRUE(bus_.Publish(ToolCancelTopic("w"), "\xff\xff nonsense").ok());
  v1::ToolRequest nameless;
  nameless.set_reply_to("inbox");
  ASSERT_TRUE(bus_.Publish(kToolsCompileTopic, nameless.SerializeAsString()).ok());
  Step();
  EXPECT_EQ(bus_.Depth(kToolsCompileTopic)->dead, 2u);
  EXPECT_EQ(bus_.Depth(ToolCancelTopic("w"))->dead, 1u);
}

TEST_F(ToolLoopTest, DrainFinishesWhatRunsAndTakesNothingNew) {
  Ask("a");
  Step();
  loop_->Drain();
  Ask("b");
  Step();
  EXPECT_EQ(port_.asked.size(), 1u);
  EXPECT_FALSE(loop_->Drained());
  port_.Answer(0);
  Step();
  EXPECT_TRUE(loop_->Drained());
  EXPECT_EQ(Answers().size(), 1u);
}

TEST_F(ToolLoopTest, ALostWorkersRequestsAreAnsweredByAnother) {
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) Ask("a" + std::to_string(i));
  Step();
  loop_.reset();  // dies with two in its hands
  HandPort second_port;
  loop_ = NewLoop(second_port);
  for (int round = 0; round < 10; ++round) {
    clock_.Advance(std::chrono::seconds(1));
    bus_.Poll();
    Step();
    for (size_t i = 0; i < second_port.asked.size(); ++i) second_port.Answer(i);
    second_port.asked.clear();
    Step();
    for (const auto& answer : Answers()) EXPECT_TRUE(ids.insert(answer.request_id()).second);
  }
  EXPECT_EQ(ids.size(), 3u);
}

}  // namespace
}  // namespace tidemill
