#include "memory/memory_loop.h"

#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "store/case_reader.h"
#include "store/store_thread.h"
#include "tasks/case_record.h"
#include "testing/memory_samples.h"
#include "testing/test_kit.h"

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

// A key says whether a prompt is about lists or trees. Answers when it is told to.
class ScriptedKeys final : public KeyPort {
 public:
  void Submit(KeyCall call) override { calls.push_back(std::move(call)); }
  Mailbox<KeyDone>& events() override { return events_; }

  void AnswerAll(Status status = Ok()) {
    for (const KeyCall& call : calls) {
      ++read[call.prompt];
      const bool list = call.prompt.find("list") != std::string::npos;
      events_.Post({call.tag, status, list ? std::vector{1.f, 0.f} : std::vector{0.f, 1.f}});
    }
    calls.clear();
  }

  std::vector<KeyCall> calls;
  std::map<std::string, int> read;  // prompts, how often

 private:
  Mailbox<KeyDone> events_{1000};
};

// Answers when it is told to.
class LateStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    scores.push_back(std::get<PutCase>(op).record.reward());
    tags_.push_back(tag);
  }
  Mailbox<StoreDone>& events() override { return events_; }
  void AnswerAll() {
    for (const uint64_t tag : tags_) events_.Post({tag, Ok(), ++cases_});
    tags_.clear();
  }

  std::vector<double> scores;  // of the cases that came

 private:
  std::vector<uint64_t> tags_;
  uint64_t cases_ = 0;
  Mailbox<StoreDone> events_{1000};
};

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
    options.retrieval = keys_ != nullptr ? "hidden" : "lexical";
    loop_ = std::make_unique<MemoryLoop>(*bus_, *client_, book_, options, *cases, keys_.get());
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
      if (keys_ != nullptr) keys_->AnswerAll();
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

  void Issue(v1::Purpose purpose, const std::string& id = "t",
             const std::string& prompt = "sort the list") {
    v1::GroupLease group;
    group.set_group(77);
    *group.mutable_task() = SampleTask(id, prompt);
    group.set_members(2);
    group.set_max_turns(1);
    group.set_purpose(purpose);
    EXPECT_TRUE(bus_->Publish(kMemoryGroupsTopic, group.SerializeAsString()).ok());
    loop_->Step(clock_.Now());
  }

  v1::GroupLease Pass(v1::Purpose purpose, const std::string& id = "t") {
    Issue(purpose, id);
    return Passed();
  }

  v1::GroupLease Passed() {
    std::vector<Lease> passed = TakeFrom(*bus_, kGroupsTopic, 4);
    EXPECT_EQ(passed.size(), 1u);
    v1::GroupLease with;
    if (!passed.empty()) {
      EXPECT_TRUE(with.ParseFromString(passed[0].body));
      (void)bus_->Ack(passed[0]);
    }
    return with;
  }

  // Nothing else uses the bank meanwhile.
  const CaseBank& Bank() {
    return *loop_->shelf().With([](const CaseBank& bank) { return &bank; });
  }

  TemporaryDirectory folder_;
  VirtualClock clock_;
  QuietWaker waker_;
  std::unique_ptr<ScriptedKeys> keys_;
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

TEST_F(MemoryLoopTest, AGroupGetsWhatIsKnownOfToolsBesideItsCases) {
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
  ASSERT_EQ(group.contexts(1).cases_size(), 2);
  EXPECT_EQ(group.contexts(1).cases(0).answer(), "right2");
  EXPECT_EQ(group.contexts(1).tool_notes(), "bash {\"command\":\"make\"} failed: not found");
  EXPECT_EQ(group.contexts(1).cases(1).answer(), "right1");
}

TEST_F(MemoryLoopTest, SkillsThatAreThereAlreadyStay) {
  Tell(SampleRecord(1, 0, "sort the list", "right", true));
  LearnAll(1);
  v1::GroupLease group;
  group.set_group(78);
  *group.mutable_task() = SampleTask("t", "sort the list");
  group.set_members(2);
  group.set_max_turns(1);
  group.set_purpose(v1::PURPOSE_TRAIN);
  for (int member = 0; member < 2; ++member) {
    v1::ShownSkill& skill = *group.add_contexts()->add_skills();
    skill.mutable_skill()->set_name("sorting");
    skill.mutable_skill()->set_version(1);
  }
  ASSERT_TRUE(bus_->Publish(kMemoryGroupsTopic, group.SerializeAsString()).ok());
  loop_->Step(clock_.Now());
  const v1::GroupLease passed = Passed();
  ASSERT_EQ(passed.contexts_size(), 2);
  EXPECT_EQ(passed.contexts(1).skills_size(), 1);
  EXPECT_EQ(passed.contexts(1).cases_size(), 1);
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
  EXPECT_EQ(Bank().cases().size(), 2u);
  EXPECT_EQ(ReadCases(folder_ / "run.db")->size(), 2u);
}

// The process stood still until the lease of the first score had run out, and no longer.
TEST_F(MemoryLoopTest, AScoreThatWasTakenBackStaysSoWhenItsMessageComesAgain) {
  LateStore late;
  MemoryLoop loop(*bus_, late, book_, {}, {});
  loop.Attach(waker_);
  v1::CaseRecord record = SampleRecord(1, 1, "where is it?", "here", true);
  record.set_session(1);
  record.set_tenant("ann");
  record.set_scope(TenantScope("ann"));
  Tell(record);
  loop.Step(clock_.Now());
  clock_.Advance(std::chrono::seconds(9));
  record.set_reward(-1);
  Tell(record);
  loop.Step(clock_.Now());
  clock_.Advance(std::chrono::seconds(25));
  late.AnswerAll();
  loop.Step(clock_.Now());
  EXPECT_EQ(late.scores, (std::vector<double>{1, -1}));
  loop.Step(clock_.Now());
  EXPECT_TRUE(loop.Drained());
  EXPECT_EQ(bus_->Depth(kMemoryCasesTopic)->leased, 0u);
  bus_->Unsubscribe(waker_);
}

TEST_F(MemoryLoopTest, ANewProcessHasTheSameBankToTheByte) {
  const auto records = RandomRecords(4, 40);
  for (const v1::CaseRecord& record : records) Tell(record);
  LearnAll(records.size());
  const std::string before = loop_->Digest();
  Restart();
  EXPECT_EQ(loop_->Digest(), before);
}

TEST_F(MemoryLoopTest, AVerdictWhoseMessageWasLostIsLearnedByTheNextProcess) {
  const v1::Trajectory episode = SampleEpisode(5, v1::PURPOSE_TRAIN);
  Store(episode, VerdictOn(episode, true));
  Restart();
  LearnAll(1);
  EXPECT_EQ(Bank().cases().begin()->second.record.answer(), "answer");
  Restart();
  loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained()) << "nothing is owed any more";
  EXPECT_EQ(Bank().cases().size(), 1u);
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
  EXPECT_TRUE(Bank().cases().empty());
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
  EXPECT_TRUE(Bank().cases().empty());
}

// The cases are found although no word is shared.
TEST_F(MemoryLoopTest, WithKeysCasesAreFoundByThem) {
  keys_ = std::make_unique<ScriptedKeys>();
  Restart();
  Tell(SampleRecord(1, 0, "order a list", "list wrong", false));
  Tell(SampleRecord(2, 0, "walk through a tree", "tree wrong", false));
  LearnAll(2);
  Issue(v1::PURPOSE_TRAIN, "t", "arrange numbers (list)");
  keys_->AnswerAll();
  loop_->Step(clock_.Now());
  const v1::GroupLease group = Passed();
  ASSERT_EQ(group.contexts_size(), 2);
  ASSERT_EQ(group.contexts(0).cases_size(), 1);
  EXPECT_EQ(group.contexts(0).cases(0).answer(), "list wrong");
}

TEST_F(MemoryLoopTest, AGroupWaitsForItsKeyAndKeepsItsLease) {
  keys_ = std::make_unique<ScriptedKeys>();
  Restart();
  Issue(v1::PURPOSE_TRAIN);
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(std::chrono::seconds(5));
    loop_->Step(clock_.Now());
    ASSERT_TRUE(TakeFrom(*bus_, kGroupsTopic, 4).empty());
    ASSERT_TRUE(TakeFrom(*bus_, kMemoryGroupsTopic, 4).empty()) << "its lease ran out";
  }
  // Another group is held up by nothing, once its own key is there.
  ASSERT_EQ(keys_->calls.size(), 1u);
  keys_->AnswerAll();
  loop_->Step(clock_.Now());
  EXPECT_EQ(Passed().group(), 77u);
}

TEST_F(MemoryLoopTest, AKeyIsComputedOnceAndNotAgainByTheNextProcess) {
  keys_ = std::make_unique<ScriptedKeys>();
  Restart();
  Issue(v1::PURPOSE_TRAIN);
  keys_->AnswerAll();
  loop_->Step(clock_.Now());
  (void)Passed();
  for (uint64_t group = 1; group <= 3; ++group) {
    Tell(SampleRecord(group, 0, "sort the list", "answer" + std::to_string(group), true));
  }
  LearnAll(3);
  EXPECT_EQ(keys_->read, (std::map<std::string, int>{{"sort the list", 1}}));
  for (const auto& [number, one] : Bank().cases()) {
    EXPECT_EQ(one.record.key_size(), 2) << number;
  }
  const std::string before = loop_->Digest();
  Restart();
  loop_->Step(clock_.Now());
  EXPECT_EQ(loop_->Digest(), before);
  EXPECT_TRUE(keys_->calls.empty());
  EXPECT_EQ(keys_->read.at("sort the list"), 1);
}

TEST_F(MemoryLoopTest, WhereAKeyFailsMemoryGoesByWords) {
  keys_ = std::make_unique<ScriptedKeys>();
  Restart();
  Tell(SampleRecord(1, 0, "sort the list", "right", true));
  ASSERT_TRUE(Eventually([&] {
    keys_->AnswerAll(Internal("no memory"));
    loop_->Step(clock_.Now());
    return loop_->counters().learned == 1;
  }));
  EXPECT_EQ(loop_->counters().unread, 1u);
  EXPECT_TRUE(Bank().cases().begin()->second.record.key().empty());
  Issue(v1::PURPOSE_TRAIN);
  keys_->AnswerAll(Internal("no memory"));
  loop_->Step(clock_.Now());
  EXPECT_EQ(Passed().contexts_size(), 2);
}

// A run that began with words and goes on with keys.
TEST_F(MemoryLoopTest, CasesWithoutAKeyAreFoundByTheirWords) {
  Tell(SampleRecord(1, 0, "sort the list", "by words", false));
  LearnAll(1);
  keys_ = std::make_unique<ScriptedKeys>();
  Restart();
  EXPECT_TRUE(keys_->calls.empty()) << "what is stored stays as it is";
  Tell(SampleRecord(2, 0, "reverse a list", "by key", false));
  Tell(SampleRecord(3, 0, "count nodes of a tree", "neither", false));
  LearnAll(2);
  Issue(v1::PURPOSE_TRAIN);
  keys_->AnswerAll();
  loop_->Step(clock_.Now());
  const v1::GroupLease group = Passed();
  ASSERT_EQ(group.contexts_size(), 2);
  ASSERT_EQ(group.contexts(0).cases_size(), 2);
  EXPECT_EQ(group.contexts(0).cases(0).answer(), "by key");
  EXPECT_EQ(group.contexts(0).cases(1).answer(), "by words");
}

TEST_F(MemoryLoopTest, AHostileMessageIsADeadLetter) {
  ASSERT_TRUE(bus_->Publish(kMemoryCasesTopic, "no such message").ok());
  for (int i = 0; i < 2; ++i) loop_->Step(clock_.Now());
  EXPECT_TRUE(loop_->Drained());
  EXPECT_EQ(bus_->Depth(kMemoryCasesTopic)->dead, 1u);
}

}  // namespace
}  // namespace tidemill
