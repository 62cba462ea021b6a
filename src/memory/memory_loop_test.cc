#include "memory/memory_loop.h"

#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/test_kit.h"
#include "core/topics.h"
#include "memory/memory_samples.h"
#include "store/case_reader.h"
#include "store/store_thread.h"

namespace tidemill {
namespace {

v1::Task SampleTask(const std::string& id, const std::string& prompt) {
  v1::Task task;
  task.set_id(id);
  task.set_prompt(prompt);
  task.add_tags("scope:here");
  return task;
}

v1::Trajectory SampleEpisode(uint64_t group, v1::Purpose purpose) {
  v1::Trajectory episode;
  episode.mutable_id()->set_task("t");
  episode.mutable_id()->set_group(group);
  episode.mutable_id()->set_attempt(1);
  episode.set_purpose(purpose);
  episode.set_end(v1::EPISODE_END_SUBMITTED);
  episode.set_group_members(1);
  episode.set_submission("answer");
  return episode;
}

v1::Verdict VerdictOn(const v1::Trajectory& episode, bool scored) {
  v1::Verdict verdict;
  *verdict.mutable_id() = episode.id();
  verdict.set_scored(scored);
  verdict.set_solved(scored);
  verdict.set_reward(scored ? 1 : 0);
  return verdict;
}

// A memory loop over a real database, stepped by hand.
class MemoryLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    task_ = SampleTask("t", "sort the list");
    tasks_ = {task_};
    book_.Add(tasks_);
    Open();
  }

  void Open() {
    bus_ = std::make_unique<MemoryBus>(clock_);
    ASSERT_TRUE(OpenStandardTopics(*bus_, {}).ok());
    auto db = RunDb::Open(folder_ / "run.db", clock_);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    auto cases = (*db)->LoadCases();
    ASSERT_TRUE(cases.ok()) << cases.status().ToString();
    store_ = std::make_unique<StoreThread>(*std::move(db), clock_);
    client_ = store_->NewClient(1024);
    MemoryOptions options;
    options.how = Retrieval::kLexical;
    loop_ = std::make_unique<MemoryLoop>(*bus_, *client_, book_, options, *cases);
    loop_->Attach(waker_);
  }

  // The process ends here and another one begins.
  void Restart() {
    loop_.reset();
    client_.reset();
    store_.reset();
    bus_.reset();
    Open();
  }

  // Until as many records were learned by this process.
  void LearnAll(uint64_t records) {
    ASSERT_TRUE(Eventually([&] {
      loop_->Step(clock_.Now());
      return loop_->counters().learned == records && loop_->Drained();
    }));
  }

  void Tell(const v1::CaseRecord& record) {
    ASSERT_TRUE(bus_->Publish(kMemoryCasesTopic, record.SerializeAsString()).ok());
  }

  // Stores episode and verdict as replay does.
  void Store(const v1::Trajectory& episode, const v1::Verdict& verdict) {
    auto db = RunDb::Open(folder_ / "run.db", clock_);
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->ApplyOne(PutTrajectory{episode}).ok());
    ASSERT_TRUE((*db)->ApplyOne(PutVerdict{verdict}).ok());
  }

  v1::GroupLease Pass(v1::Purpose purpose, const std::string& id = "t") {
    v1::GroupLease group;
    group.set_group(77);
    *group.mutable_task() = SampleTask(id, "sort the list");
    group.set_members(2);
    group.set_max_turns(1);
    group.set_purpose(purpose);
    EXPECT_TRUE(bus_->Publish(kMemoryGroupsTopic, group.SerializeAsString()).ok());
    loop_->Step(clock_.Now());
    std::vector<Lease> passed = TakeFrom(*bus_, kGroupsTopic, 4);
    EXPECT_EQ(passed.size(), 1u);
    v1::GroupLease with;
    if (!passed.empty()) {
      EXPECT_TRUE(with.ParseFromString(passed[0].body));
      (void)bus_->Ack(passed[0]);
    }
    return with;
  }

  TemporaryDirectory folder_;
  VirtualClock clock_;
  QuietWaker waker_;
  v1::Task task_;
  std::vector<v1::Task> tasks_;
  TaskBook book_;
  std::unique_ptr<MemoryBus> bus_;
  std::unique_ptr<StoreThread> store_;
  std::unique_ptr<StorePort> client_;
  std::unique_ptr<MemoryLoop> loop_;
};

TEST_F(MemoryLoopTest, AGroupGetsTheCasesOfItsMembers) {
  EXPECT_EQ(Pass(v1::PURPOSE_TRAIN).contexts_size(), 0);
  Tell(SampleRecord(1, 0, "sort the list", "right", true));
  LearnAll(1);
  const v1::GroupLease group = Pass(v1::PURPOSE_TRAIN);
  ASSERT_EQ(group.contexts_size(), 2);
  EXPECT_EQ(group.contexts(0).cases(0).answer(), "right");
  EXPECT_GT(group.max_case_tokens(), 0u);
}

TEST_F(MemoryLoopTest, AGroupGetsWhatIsKnownOfToolsBehindItsBestCase) {
  for (uint64_t group = 1; group <= 2; ++group) {
    v1::CaseRecord record =
        SampleRecord(group, 0, "sort the list", "right" + std::to_string(group), true);
    v1::ToolNote& note = *record.add_tools();
    note.set_tool("bash");
    note.set_arguments_json("{\"command\":\"make\"}");
    note.set_outcome(v1::OUTCOME_FAILED);
    note.set_text("not found");
    Tell(record);
  }
  LearnAll(2);
  const v1::GroupLease group = Pass(v1::PURPOSE_TRAIN);
  ASSERT_EQ(group.contexts_size(), 2);
  ASSERT_EQ(group.contexts(1).cases_size(), 3);
  EXPECT_EQ(group.contexts(1).cases(0).answer(), "right2");
  EXPECT_EQ(group.contexts(1).cases(1).note(), "bash {\"command\":\"make\"} failed: not found");
  EXPECT_EQ(group.contexts(1).cases(2).answer(), "right1");
}

TEST_F(MemoryLoopTest, AnEvaluationIsNeverShownItsOwnTask) {
  Tell(SampleRecord(1, 0, "sort the list", "right", true));
  LearnAll(1);
  EXPECT_EQ(Pass(v1::PURPOSE_EVAL, "task-1").contexts_size(), 0);
  EXPECT_EQ(Pass(v1::PURPOSE_EVAL, "other").contexts_size(), 2);
  EXPECT_EQ(Pass(v1::PURPOSE_TRAIN, "task-1").contexts_size(), 2);
}

TEST_F(MemoryLoopTest, ARepeatedMessageIsLearnedOnce) {
  const v1::CaseRecord record = SampleRecord(1, 0, "sort the list", "right", true);
  Tell(record);
  Tell(record);
  Tell(SampleRecord(2, 0, "sum of the tree", "right", true));
  LearnAll(2);
  EXPECT_EQ(loop_->bank().cases().size(), 2u);
  EXPECT_EQ(ReadCases(folder_ / "run.db")->size(), 2u);
}

TEST_F(MemoryLoopTest, ANewProcessHasTheSameBankToTheByte) {
  const auto records = RandomRecords(4, 40);
  for (const v1::CaseRecord& record : records) Tell(record);
  LearnAll(records.size());
  const std::string before = loop_->bank().Digest();
  Restart();
  EXPECT_EQ(loop_->bank().Digest(), before);
}

TEST_F(MemoryLoopTest, AVerdictWhoseMessageWasLostIsLearnedByTheNextProcess) {
  const v1::Trajectory episode = SampleEpisode(5, v1::PURPOSE_TRAIN);
  Store(episode, VerdictOn(episode, true));
  Restart();
  LearnAll(1);
  EXPECT_EQ(loop_->bank().cases().begin()->second.record.answer(), "answer");
  Restart();
  loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained()) << "nothing is owed any more";
  EXPECT_EQ(loop_->bank().cases().size(), 1u);
}

TEST_F(MemoryLoopTest, EvaluationsAndFailuresOfOursNeverBecomeCases) {
  const v1::Trajectory evaluated = SampleEpisode(5, v1::PURPOSE_EVAL);
  Store(evaluated, VerdictOn(evaluated, true));
  const v1::Trajectory unscored = SampleEpisode(6, v1::PURPOSE_TRAIN);
  Store(unscored, VerdictOn(unscored, false));
  v1::Trajectory given_up = SampleEpisode(7, v1::PURPOSE_TRAIN);
  given_up.set_end(v1::EPISODE_END_GIVEN_UP);
  Store(given_up, VerdictOn(given_up, true));
  Restart();
  loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained());
  EXPECT_TRUE(loop_->bank().cases().empty());
}

TEST_F(MemoryLoopTest, WhatIsErasedStaysAway) {
  const v1::Trajectory episode = SampleEpisode(5, v1::PURPOSE_TRAIN);
  Store(episode, VerdictOn(episode, true));
  Restart();
  LearnAll(1);
  {
    auto db = RunDb::Open(folder_ / "run.db", clock_);
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->ApplyOne(EraseCases{.task = "t"}).ok());
    EXPECT_EQ((*db)->ApplyOne(EraseCases{}).code(), Code::kInvalid);
  }
  Restart();
  loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained());
  EXPECT_TRUE(loop_->bank().cases().empty());
}

TEST_F(MemoryLoopTest, AHostileMessageIsADeadLetter) {
  ASSERT_TRUE(bus_->Publish(kMemoryCasesTopic, "no such message").ok());
  for (int i = 0; i < 2; ++i) loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained());
  EXPECT_EQ(bus_->Depth(kMemoryCasesTopic)->dead, 1u);
}

}  // namespace
}  // namespace tidemill
