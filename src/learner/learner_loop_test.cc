#include "learner/learner_loop.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

class FakeStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    StoreDone done{tag, Ok(), 0};
    if (std::holds_alternative<ReserveVersion>(op)) done.version = ++reserved;
    if (auto* step = std::get_if<PutStep>(&op)) steps.push_back(*step);
    if (auto* checkpoint = std::get_if<PutCheckpoint>(&op)) checkpoints.push_back(*checkpoint);
    if (hold)
      held.push_back(done);
    else
      events_.Post(done);
  }
  void LetGo() {
    for (StoreDone& done : std::exchange(held, {})) events_.Post(done);
  }
  Mailbox<StoreDone>& events() override { return events_; }
  bool hold = false;
  uint64_t reserved = 10;
  std::vector<StoreDone> held;
  std::vector<PutStep> steps;
  std::vector<PutCheckpoint> checkpoints;

 private:
  Mailbox<StoreDone> events_{1000};
};

class FakeTrainer final : public TrainerPort {
 public:
  void Train(v1::Batch batch) override {
    commands.push_back("train " + std::to_string(batch.step()));
  }
  void Publish(uint64_t version, uint64_t step) override {
    commands.push_back("publish " + std::to_string(version));
    events_.Post(PublishDone{version, Ok(), 0});
    (void)step;
  }
  void Checkpoint(CheckpointRequest request) override {
    commands.push_back("checkpoint " + std::to_string(request.step));
    CheckpointDone done{request.step, request.version, request.path, Ok(), 0, 0};
    if (writes_at_once) {
      events_.Post(std::move(done));
    } else {
      writing.push_back(std::move(done));
    }
  }
  // The oldest checkpoint that is being written.
  void Written(Status status = Ok()) {
    writing.front().status = std::move(status);
    events_.Post(std::move(writing.front()));
    writing.pop_front();
  }
  void SetBack(const SetBackRequest& request) override {
    commands.push_back("back to " + std::to_string(request.to) + " as " +
                       std::to_string(request.version));
    events_.Post(SetBackDone{request.to, request.version, request.step, Ok()});
  }
  void Trained(uint64_t step, Status status = Ok()) {
    events_.Post(TrainDone{step, std::move(status), {{"tokens", 5}}});
  }
  Mailbox<TrainerEvent>& events() override { return events_; }
  std::vector<std::string> commands;
  bool writes_at_once = true;
  std::deque<CheckpointDone> writing;

 private:
  Mailbox<TrainerEvent> events_{1000};
};

class FakeRelease final : public ReleasePort {
 public:
  void Take(const VersionEvent&) override {}
  Mailbox<ReleaseWish>& wishes() override { return wishes_; }

 private:
  Mailbox<ReleaseWish> wishes_{10};
};

class LearnerLoopTest : public testing::Test {
 protected:
  LearnerLoopTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    options_.max_steps = 3;
    options_.trained = {{.checkpoint_folder = "c", .trainer = &trainer_}};
    options_.checkpoint_every_steps = 2;
    options_.release = &release_;
  }
  void Make() {
    loop_ = std::make_unique<LearnerLoop>(bus_, store_, journal_, options_);
    loop_->Attach(waker_);
    Step();
  }
  void Step() {
    for (int i = 0; i < 3; ++i) loop_->Step(clock_.Now());
  }
  std::vector<v1::BatchRequest> Requests() {
    std::vector<v1::BatchRequest> requests;
    for (const Lease& lease : bus_.Receive(kBatchRequestsTopic, 10).value()) {
      v1::BatchRequest request;
      EXPECT_TRUE(request.ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
      requests.push_back(std::move(request));
    }
    for (const Lease& lease : bus_.Receive(kVersionsTopic, 10).value()) {
      v1::VersionPublished published;
      EXPECT_TRUE(published.ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
      told_.push_back(published.version());
    }
    return requests;
  }
  void Answer(const v1::BatchRequest& request) {
    v1::Batch batch;
    batch.set_step(request.step());
    batch.set_policy(request.policy());
    v1::TrajectoryId& id = *batch.add_samples()->mutable_trajectory()->mutable_id();
    id.set_group(request.step() + 1);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), batch.SerializeAsString()).ok());
    Step();
  }
  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FakeStore store_;
  FakeTrainer trainer_;
  FakeRelease release_;
  NullJournal journal_;
  LearnerOptions options_;
  std::vector<uint64_t> told_;  // versions replay was told of
  std::unique_ptr<LearnerLoop> loop_;
};

TEST_F(LearnerLoopTest, AsksForTheNextBatchWhileOneTrains) {
  Make();
  std::vector<v1::BatchRequest> requests = Requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].step(), 0u);
  Answer(requests[0]);
  requests = Requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].step(), 1u);
}

TEST_F(LearnerLoopTest, WithoutPrefetchItWaitsForTheStep) {
  options_.prefetch = false;
  Make();
  Answer(Requests()[0]);
  EXPECT_TRUE(Requests().empty());
  trainer_.Trained(0);
  Step();
  EXPECT_EQ(Requests().size(), 1u);
}

TEST_F(LearnerLoopTest, PublishesOnlyAReservedVersionAndTrainsNoFurtherBeforeThat) {
  store_.hold = true;
  Make();
  Answer(Requests()[0]);
  Answer(Requests()[0]);
  trainer_.Trained(0);
  Step();
  EXPECT_EQ(trainer_.commands, (std::vector<std::string>{"train 0"}));
  store_.LetGo();
  Step();
  EXPECT_EQ(trainer_.commands, (std::vector<std::string>{"train 0", "publish 11", "train 1"}));
  EXPECT_EQ(store_.steps.at(0).used.at(0).group(), 1u);
}

TEST_F(LearnerLoopTest, ItIsSetBackBetweenTwoStepsUnderANewNumber) {
  Make();
  Answer(Requests()[0]);
  Answer(Requests()[0]);
  release_.wishes().Post({.set_back = 7});
  Step();
  EXPECT_EQ(trainer_.commands, (std::vector<std::string>{"train 0"})) << "a step is under way";
  trainer_.Trained(0);
  Step();
  ASSERT_EQ(trainer_.commands.size(), 4u);
  EXPECT_EQ(trainer_.commands[2].substr(0, 13), "back to 7 as ");
  EXPECT_EQ(trainer_.commands[3], "train 1");
  const std::string version = trainer_.commands[2].substr(13);
  EXPECT_NE("publish " + version, trainer_.commands[1]);
  EXPECT_EQ(std::to_string(loop_->counters().version), version);
  EXPECT_EQ(loop_->counters().steps, 1u) << "steps stay taken";
  trainer_.Trained(1);
  Step();
  ASSERT_GE(trainer_.commands.size(), 5u);
  ASSERT_EQ(trainer_.commands[4].substr(0, 8), "publish ");
  EXPECT_GT(std::stoull(trainer_.commands[4].substr(8)), std::stoull(version))
      << "numbers only rise";
}

TEST_F(LearnerLoopTest, AStepWaitsWhileTheReleaseIsTooFarBehind) {
  options_.behind_max = 1;
  options_.prefetch = false;
  options_.max_steps = 10;
  Make();
  for (uint64_t step = 0; step < 2; ++step) {
    Answer(Requests()[0]);
    trainer_.Trained(step);
    Step();
  }
  EXPECT_TRUE(Requests().empty()) << "two steps ahead of the release";
  release_.wishes().Post({.step = 1});
  Step();
  EXPECT_EQ(Requests().size(), 1u);
}

TEST_F(LearnerLoopTest, ReplayIsToldOfAVersionWithoutBeingAskedForABatch) {
  Make();
  Answer(Requests()[0]);
  (void)Requests();
  trainer_.Trained(0);
  Step();
  EXPECT_TRUE(Requests().empty()) << "the next batch was asked for before";
  EXPECT_EQ(told_, std::vector<uint64_t>{11});
}

TEST_F(LearnerLoopTest, ACheckpointIsTakenBeforeTheNextStepChangesTheWeights) {
  Make();
  for (uint64_t step = 0; step < 3; ++step) {
    Answer(Requests().at(0));
    trainer_.Trained(step);
    Step();
  }
  EXPECT_EQ(trainer_.commands,
            (std::vector<std::string>{"train 0", "publish 11", "train 1", "publish 12",
                                      "checkpoint 2", "train 2", "publish 13", "checkpoint 3"}));
  EXPECT_TRUE(loop_->counters().done);
  EXPECT_EQ(store_.checkpoints.size(), 2u);
}

TEST_F(LearnerLoopTest, StepsGoOnWhileCheckpointsAreWrittenAndTheEndWaitsForAll) {
  trainer_.writes_at_once = false;
  Make();
  for (uint64_t step = 0; step < 3; ++step) {
    Answer(Requests().at(0));
    trainer_.Trained(step);
    Step();
  }
  EXPECT_EQ(trainer_.commands.back(), "checkpoint 3");
  EXPECT_EQ(trainer_.writing.size(), 2u) << "the second is not left out while the first is written";
  EXPECT_TRUE(store_.checkpoints.empty()) << "none is known before it is there";
  trainer_.Written();
  Step();
  ASSERT_EQ(store_.checkpoints.size(), 1u);
  EXPECT_EQ(store_.checkpoints[0].step, 2u);
  EXPECT_FALSE(loop_->counters().done);
  trainer_.Written(Unavailable("the disk is full"));
  Step();
  EXPECT_EQ(store_.checkpoints.size(), 1u) << "one that failed cannot be gone on from";
  EXPECT_TRUE(loop_->counters().done);
}

TEST_F(LearnerLoopTest, AskedToFinishItSavesAndTellsTheDispatcher) {
  Make();
  Answer(Requests()[0]);
  loop_->FinishSoon();
  trainer_.Trained(0);
  Step();
  EXPECT_TRUE(loop_->counters().done);
  EXPECT_EQ(trainer_.commands.back(), "checkpoint 1");
  bool last = false;
  for (const Lease& lease : bus_.Receive(kDispatchTopic, 10).value()) {
    v1::DispatchEvent event;
    ASSERT_TRUE(event.ParseFromString(lease.body));
    last |= event.step().last();
  }
  EXPECT_TRUE(last);
}

class TwoPolicies : public LearnerLoopTest {
 protected:
  TwoPolicies() {
    options_.policies = PolicyNames({"coder", "planner"});
    options_.trained = {
        {.id = PolicyId{1}, .checkpoint_folder = "c/coder", .trainer = &trainer_},
        {.id = PolicyId{2}, .checkpoint_folder = "c/planner", .trainer = &planner_}};
  }
  void Train(FakeTrainer& trainer, uint64_t step) { trainer.Trained(step), Step(); }
  v1::BatchRequest Of(const std::string& policy, const std::vector<v1::BatchRequest>& requests) {
    for (const v1::BatchRequest& request : requests) {
      if (request.policy() == policy) return request;
    }
    ADD_FAILURE() << "no request of " << policy;
    return {};
  }
  FakeTrainer planner_;
};

TEST_F(TwoPolicies, StepsAreTakenOneAtATimeByWhoseBatchCameFirst) {
  Make();
  const std::vector<v1::BatchRequest> requests = Requests();
  ASSERT_EQ(requests.size(), 2u) << "one of each";
  Answer(Of("planner", requests));
  Answer(Of("coder", requests));
  EXPECT_TRUE(trainer_.commands.empty()) << "the planner's came first";
  EXPECT_EQ(planner_.commands, (std::vector<std::string>{"train 0"}));
  Train(planner_, 0);
  EXPECT_EQ(trainer_.commands, (std::vector<std::string>{"train 0"}));
  EXPECT_EQ(planner_.commands, (std::vector<std::string>{"train 0", "publish 11"}));
  Train(trainer_, 0);
  ASSERT_EQ(store_.steps.size(), 2u);
  EXPECT_EQ(store_.steps[0].step, 1u);
  EXPECT_EQ(store_.steps[0].of.policy, "planner");
  EXPECT_EQ(store_.steps[1].step, 2u);
  EXPECT_EQ(store_.steps[1].of.policy, "coder");
  EXPECT_EQ(store_.steps[1].of.step, 1u) << "its own";
  EXPECT_EQ(trainer_.commands.back(), "publish 12") << "a number is given once in a run";
  std::map<std::string, uint64_t> told;
  for (const Lease& lease : bus_.Receive(kDispatchTopic, 10).value()) {
    v1::DispatchEvent event;
    ASSERT_TRUE(event.ParseFromString(lease.body));
    told[event.step().policy()] = event.step().step();
  }
  EXPECT_EQ(told, (std::map<std::string, uint64_t>{{"coder", 1}, {"planner", 1}}));
}

TEST_F(TwoPolicies, ABatchOfAPolicyThatIsNotTrainedIsRefused) {
  Make();
  v1::BatchRequest request = Of("coder", Requests());
  request.set_policy("");
  Answer(request);
  EXPECT_TRUE(trainer_.commands.empty());
  EXPECT_TRUE(planner_.commands.empty());
  EXPECT_EQ(bus_.Depth(kDeadTopic)->ready, 1u);
}

// A checkpoint of the run is that of all policies or none.
TEST_F(TwoPolicies, TheDatabaseHearsOfACheckpointWhenEveryPolicyHasWrittenIt) {
  planner_.writes_at_once = false;
  Make();
  std::vector<v1::BatchRequest> requests = Requests();
  Answer(Of("planner", requests)), Train(planner_, 0);
  Answer(Of("coder", requests)), Train(trainer_, 0);
  Answer(Of("coder", Requests())), Train(trainer_, 1);  // its second: checkpoints are due
  EXPECT_EQ(trainer_.commands.back(), "checkpoint 2");
  EXPECT_EQ(planner_.commands.back(), "checkpoint 1");
  EXPECT_TRUE(store_.checkpoints.empty()) << "the planner still writes";
  planner_.Written(Unavailable("the disk is full"));
  Step();
  EXPECT_TRUE(store_.checkpoints.empty()) << "half a checkpoint is none";
  loop_->FinishSoon();
  Step();
  EXPECT_TRUE(loop_->counters().done) << "one that failed is not repeated for ever";
}

TEST_F(TwoPolicies, WhatOnePolicyCouldNotWriteIsWrittenWithTheNextThatAreDue) {
  planner_.writes_at_once = false;
  Make();
  const std::vector<v1::BatchRequest> requests = Requests();
  Answer(Of("planner", requests)), Train(planner_, 0);
  Answer(Of("coder", requests)), Train(trainer_, 0);
  Answer(Of("coder", Requests())), Train(trainer_, 1);
  planner_.Written(Unavailable("the disk is full"));
  Step();
  Answer(Of("coder", Requests())), Train(trainer_, 2);  // its last
  EXPECT_EQ(planner_.commands.back(), "checkpoint 1");
  planner_.Written();
  Step();
  ASSERT_EQ(store_.checkpoints.size(), 1u);
  EXPECT_EQ(store_.checkpoints[0].step, 4u) << "of the run";
  EXPECT_FALSE(loop_->counters().done) << "the planner has steps to take";
}

TEST_F(LearnerLoopTest, ANanTakesTheRunDownWithItsMessage) {
  Make();
  Answer(Requests()[0]);
  trainer_.Trained(0, Internal("the loss is not a number"));
  EXPECT_THROW(Step(), std::runtime_error);
}

TEST_F(LearnerLoopTest, ARepeatedBatchIsIgnored) {
  Make();
  const v1::BatchRequest request = Requests()[0];
  Answer(request);
  Answer(request);
  EXPECT_EQ(trainer_.commands.size(), 1u);
}

}  // namespace
}  // namespace tidemill
