// Checkpoints that are copied while the trainer goes on.
#include "model/torch/aten.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "learner/snapshot_gate.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/trainer_thread.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr Duration kCopyTakes = milliseconds(250);

class CheckpointCopyTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> Make(const std::string& preset, bool adapter = false,
                                std::function<void(int64_t)> on_microbatch = nullptr) {
    TrainerOptions options;
    options.objective = *ObjectivePreset(preset);
    options.schedule = {.peak = 1e-3, .warmup_steps = 3};
    options.minibatches = adapter ? 1 : 2;
    options.on_microbatch = std::move(on_microbatch);
    std::shared_ptr<const PolicyWeights> from = weights_;
    if (adapter) {
      LoraConfig lora;
      lora.rank = 4;
      lora.target_modules = {"q_proj", "down_proj"};
      from = *PolicyWeights::WithAdapter(weights_, *NewAdapter(lora, TinyConfig(), 7));
    }
    return std::move(Trainer::New(from, options)).value();
  }
  v1::Batch Batch(uint64_t step) {
    v1::Batch batch = RandomBatch(*weights_, step, /*groups=*/2);
    batch.set_step(step);
    return batch;
  }

  // The trainer's thread with time that passes only while a checkpoint is copied, which begins
  // when the trainer stands waiting for it.
  std::unique_ptr<TrainerThread> Start(std::unique_ptr<Trainer> trainer) {
    SnapshotGate& gate = trainer->gate();
    channel_ = NewLocalWeightChannel();
    TrainerThreadOptions options;
    options.keep_every_steps = options.first_version = 1;
    options.checkpoints_follow = true;
    options.on_copy = [this, &gate] {
      EXPECT_TRUE(Eventually([&] { return gate.waiting(); })) << "a change did not wait";
      clock_.Advance(kCopyTakes);
      return Ok();
    };
    auto thread = std::make_unique<TrainerThread>(std::move(trainer), *channel_, clock_, options);
    thread->events().Attach(bell_);
    return thread;
  }
  std::vector<TrainerEvent> Await(TrainerThread& thread, uint64_t answers) {
    EXPECT_TRUE(bell_.WaitPast(answers - 1));
    return thread.events().TakeAll();
  }
  static CheckpointDone CheckpointIn(const std::vector<TrainerEvent>& events) {
    for (const TrainerEvent& event : events) {
      if (const auto* done = std::get_if<CheckpointDone>(&event)) return *done;
    }
    return {};
  }
  // Byte for byte what a trainer saves that takes one step and stands still.
  void ExpectAsAfterOneStep(Trainer& still, const CheckpointDone& done) {
    ASSERT_TRUE(done.status.ok()) << done.status.ToString();
    ASSERT_TRUE(still.Train(Batch(0)).ok());
    still.NotePublished(2, 1);
    const std::string expected = folder_ + "/still";
    ASSERT_TRUE(SaveCheckpoint(still, expected, {1, 2}, "").ok());
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(expected)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(TextOf(entry.path()) == TextOf(done.path + "/" + name)) << name;
      ++files;
    }
    EXPECT_GE(files, 4u);
  }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  VirtualClock clock_;
  Bell bell_;
};

TEST_F(CheckpointCopyTest, TheNextUpdateWaitsForTheCopyAndNothingElseDoes) {
  struct Case {
    const char* preset;
    bool adapter;
  };
  for (const auto& [preset, adapter] : {Case{"vtrace", false}, Case{"tis", true}}) {
    SCOPED_TRACE(preset);
    const uint64_t rung = bell_.count();
    const auto thread = Start(Make(preset, adapter));
    thread->Train(Batch(0));
    thread->Publish(2, 1);
    thread->Checkpoint({1, 2, folder_ + "/step-1"});
    thread->Train(Batch(1));
    thread->Publish(3, 2);
    thread->Train(Batch(2));
    const std::vector<TrainerEvent> events = Await(*thread, rung + 6);
    for (const TrainerEvent& event : events) {
      const auto* trained = std::get_if<TrainDone>(&event);
      EXPECT_TRUE(trained == nullptr || trained->status.ok());
    }
    const CheckpointDone done = CheckpointIn(events);
    ExpectAsAfterOneStep(*Make(preset, adapter), done);
    EXPECT_EQ(done.pause_seconds, Seconds(kCopyTakes));
    EXPECT_EQ(done.copy_seconds, Seconds(kCopyTakes));
    EXPECT_EQ(done.write_seconds, 0);
    EXPECT_EQ(done.seconds, Seconds(kCopyTakes));
  }
}

TEST_F(CheckpointCopyTest, GoingBackToEarlierWeightsWaitsForTheCopy) {
  const auto thread = Start(Make("tis"));
  thread->Train(Batch(0));
  thread->Publish(2, 1);
  thread->Checkpoint({1, 2, folder_ + "/step-1"});
  thread->SetBack({.to = 1, .version = 3, .step = 1});
  const std::vector<TrainerEvent> events = Await(*thread, 4);
  for (const TrainerEvent& event : events) {
    const auto* back = std::get_if<SetBackDone>(&event);
    EXPECT_TRUE(back == nullptr || back->status.ok()) << back->status.ToString();
  }
  ExpectAsAfterOneStep(*Make("tis"), CheckpointIn(events));
}

TEST_F(CheckpointCopyTest, AStepThatIsUndoneWaitsForTheCopy) {
  int calls = 0;
  const auto thread = Start(Make("tis", false, [&](int64_t) {
    // The first of the second step, which has two updates.
    if (++calls == 3) throw c10::OutOfMemoryError({__func__, __FILE__, 1}, "no 9 GiB");
  }));
  thread->Train(Batch(0));
  thread->Publish(2, 1);
  thread->Checkpoint({1, 2, folder_ + "/step-1"});
  thread->Train(Batch(1));
  ExpectAsAfterOneStep(*Make("tis"), CheckpointIn(Await(*thread, 4)));
  EXPECT_GT(calls, 4);
}

TEST_F(CheckpointCopyTest, ATrainerThatStopsWhileACopyIsTakenLeavesItWhole) {
  for (const bool step_behind : {false, true}) {
    fs::remove_all(folder_ + "/step-1");
    auto trainer = Make("tis");
    SnapshotGate& gate = trainer->gate();
    TrainerThreadOptions options;
    Mutex mutex;
    CondVar changed;
    bool copying = false, stopping = false;
    options.on_copy = [&] {
      MutexLock lock(mutex);
      copying = true;
      changed.NotifyAll();
      changed.Wait(lock, [&] { return stopping; });
      return Ok();
    };
    auto thread = std::make_unique<TrainerThread>(std::move(trainer), *channel_, clock_, options);
    thread->Train(Batch(0));
    thread->Checkpoint({1, 2, folder_ + "/step-1"});
    if (step_behind) {
      thread->Train(Batch(1));
      EXPECT_TRUE(Eventually([&] { return gate.waiting(); }));
    }
    {
      MutexLock lock(mutex);
      changed.Wait(lock, [&] { return copying; });
    }
    std::thread stop([&] {
      {
        MutexLock lock(mutex);
        stopping = true;
      }
      changed.NotifyAll();
    });
    thread.reset();
    stop.join();
    auto saved = Make("tis");
    ASSERT_TRUE(LoadCheckpoint(folder_ + "/step-1", *saved).ok());
    auto expected = Make("tis");
    ASSERT_TRUE(expected->Train(Batch(0)).ok());
    for (const auto& [name, tensor] : WeightsOf(*expected)) {
      EXPECT_TRUE(at::equal(tensor, WeightsOf(*saved).at(name))) << name;
    }
  }
}

TEST_F(CheckpointCopyTest, ACopyThatFailsIsToldAndTheTrainerGoesOn) {
  TrainerThreadOptions options;
  int copies = 0;
  options.on_copy = [&] { return ++copies == 1 ? Internal("the bus is broken") : Ok(); };
  TrainerThread thread(Make("tis"), *channel_, clock_, options);
  thread.events().Attach(bell_);
  thread.Checkpoint({1, 2, folder_ + "/step-1"});
  thread.Train(Batch(0));
  thread.Checkpoint({2, 2, folder_ + "/step-2"});
  const std::vector<TrainerEvent> events = Await(thread, 3);
  const CheckpointDone failed = CheckpointIn(events);
  EXPECT_EQ(failed.step, 1u);
  EXPECT_THAT(failed.status.message(), HasSubstr("the bus is broken"));
  EXPECT_FALSE(fs::exists(folder_ + "/step-1"));
  EXPECT_TRUE(fs::exists(folder_ + "/step-2/trainer_state.json"));
  for (const TrainerEvent& event : events) {
    const auto* trained = std::get_if<TrainDone>(&event);
    EXPECT_TRUE(trained == nullptr || trained->status.ok());
  }
}

}  // namespace
}  // namespace tidemill
