#include "learner/torch/checkpoint.h"

#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "learner/torch/trainer_thread.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectSame(const NamedTensors& got, const NamedTensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::equal(tensor, got.at(name))) << name;
}

class CheckpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> Make(const std::string& preset = "vtrace", uint64_t seed = 1) {
    TrainerOptions options;
    options.objective = *ObjectivePreset(preset);
    options.schedule = {.peak = 1e-3, .warmup_steps = 3};
    options.minibatches = 2;
    options.epochs = 2;
    return std::move(Trainer::New(TinyWeights(TinyConfig(), seed), options)).value();
  }
  v1::Batch Batch(uint64_t step) {
    v1::Batch batch = RandomBatch(*weights_, step);
    batch.set_step(step);
    return batch;
  }
  void Train(Trainer& trainer, uint64_t first, uint64_t last) {
    for (uint64_t step = first; step < last; ++step) {
      ASSERT_TRUE(trainer.Train(Batch(step)).ok());
      trainer.NotePublished(step + 2, step + 1);
    }
  }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
};

TEST_F(CheckpointTest, ARunResumedFromItGoesOnBitForBit) {
  auto whole = Make();
  Train(*whole, 0, 3);
  ASSERT_TRUE(SaveCheckpoint(*whole, folder_ + "/step-3", {3, 4}, "").ok());
  Train(*whole, 3, 8);

  auto resumed = Make("vtrace", /*seed=*/99);
  const auto info = LoadCheckpoint(folder_ + "/step-3", *resumed);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->step, 3u);
  EXPECT_EQ(info->version, 4u);
  Train(*resumed, 3, 8);
  ExpectSame(WeightsOf(*resumed), WeightsOf(*whole));
  ExpectSame(resumed->OptimizerState(), whole->OptimizerState());
  ExpectSame(resumed->ValueHead(), whole->ValueHead());
  EXPECT_EQ(whole->progress().versions.all(), resumed->progress().versions.all());
}

TEST_F(CheckpointTest, IsAModelDirectoryWithTheTokenizerOfTheOneItCameFrom) {
  const std::string source = folder_ + "/source";
  fs::create_directories(source);
  std::ofstream(source + "/tokenizer.json") << "{}";
  auto trainer = Make();
  Train(*trainer, 0, 1);
  ASSERT_TRUE(SaveCheckpoint(*trainer, folder_ + "/step-1", {1, 2}, source).ok());
  EXPECT_TRUE(fs::exists(folder_ + "/step-1/tokenizer.json"));
  const auto loaded = PolicyWeights::Load(folder_ + "/step-1");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectSame((*loaded)->tensors(), WeightsOf(*trainer));
}

TEST_F(CheckpointTest, ReplacesAnOlderOneOfTheSameNameAndLeavesNothingBehind) {
  auto trainer = Make();
  ASSERT_TRUE(SaveCheckpoint(*trainer, folder_ + "/step-1", {1, 2}, "").ok());
  Train(*trainer, 0, 1);
  ASSERT_TRUE(SaveCheckpoint(*trainer, folder_ + "/step-1", {1, 9}, "").ok());
  EXPECT_EQ(LoadCheckpoint(folder_ + "/step-1", *trainer)->version, 9u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(CheckpointTest, SaysWhatIsWrongWithOneThatCannotBeUsedAndChangesNothing) {
  auto trainer = Make("tis");
  Train(*trainer, 0, 1);
  const std::string dir = folder_ + "/step-1";
  ASSERT_TRUE(SaveCheckpoint(*trainer, dir, {1, 2}, "").ok());
  EXPECT_THAT(LoadCheckpoint(dir, *Make("vtrace")).status().message(), HasSubstr("no value head"));
  EXPECT_EQ(LoadCheckpoint(folder_ + "/none", *trainer).status().code(), Code::kNotFound);

  auto other = Make("tis", 5);
  const NamedTensors before = WeightsOf(*other);
  fs::resize_file(dir + "/optimizer.safetensors",
                  fs::file_size(dir + "/optimizer.safetensors") - 4);
  EXPECT_THAT(LoadCheckpoint(dir, *other).status().message(), HasSubstr("optimizer.safetensors"));
  std::ofstream(dir + "/trainer_state.json") << "{\"format\": 1}";
  EXPECT_THAT(LoadCheckpoint(dir, *other).status().message(), HasSubstr("trainer_state.json"));
  ExpectSame(WeightsOf(*other), before);
}

TEST_F(CheckpointTest, ABitThatFlippedIsFoundAndTheFileNamed) {
  auto trainer = Make();
  const std::string dir = folder_ + "/step-1", optimizer = dir + "/optimizer.safetensors";
  ASSERT_TRUE(SaveCheckpoint(*trainer, dir, {1, 2}, "").ok());
  EXPECT_TRUE(CheckCheckpoint(dir).ok()) << CheckCheckpoint(dir).ToString();
  std::string bytes = TextOf(optimizer);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(optimizer) << bytes;
  EXPECT_EQ(CheckCheckpoint(dir).code(), Code::kCorrupt);
  EXPECT_THAT(CheckCheckpoint(dir).message(), HasSubstr(optimizer + ": was damaged"));
  EXPECT_TRUE(CheckModelWeights(dir).ok()) << "of no use to who only draws from it";
  const std::string weights = dir + "/model.safetensors", whole = TextOf(weights);
  bytes = whole;
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(weights) << bytes;
  EXPECT_THAT(CheckModelWeights(dir).message(), HasSubstr(weights + ": was damaged"));
  std::ofstream(weights) << whole;
  fs::remove(optimizer);
  EXPECT_EQ(CheckCheckpoint(dir).code(), Code::kCorrupt);
  EXPECT_THAT(CheckCheckpoint(dir).message(), HasSubstr(optimizer));
  fs::remove(dir + "/checksums.xxh3");
  EXPECT_TRUE(CheckCheckpoint(dir).ok()) << "of a program that wrote none";
  EXPECT_EQ(CheckCheckpoint(folder_ + "/none").code(), Code::kNotFound);
}

TEST_F(CheckpointTest, PruningKeepsTheNewestAndTheBest) {
  for (const char* name : {"step-2", "step-10", "step-9", "step-1", "notes", "step-3.unfinished"}) {
    fs::create_directories(folder_ + "/" + name);
  }
  fs::create_directory_symlink("step-1", folder_ + "/best");
  auto deleted = PruneCheckpoints(folder_, 2);
  ASSERT_TRUE(deleted.ok());
  std::sort(deleted->begin(), deleted->end());
  EXPECT_THAT(*deleted, ElementsAre("step-2", "step-3.unfinished"));
  EXPECT_TRUE(fs::exists(folder_ + "/step-1"));
  EXPECT_TRUE(fs::exists(folder_ + "/best"));
  EXPECT_TRUE(fs::exists(folder_ + "/notes"));
}

TEST_F(CheckpointTest, AModelIsNotWrittenOverSomethingThatIsNone) {
  std::ofstream(folder_ + "/thesis.txt") << "years of work";
  EXPECT_EQ(SaveModelDirectory(*weights_, folder_, "").code(), Code::kExists);
  EXPECT_EQ(SaveModelDirectory(*weights_, folder_, "", /*replace=*/true).code(), Code::kExists);
  EXPECT_TRUE(fs::exists(folder_ + "/thesis.txt"));
  const std::string model = folder_ + "/model";
  ASSERT_TRUE(SaveModelDirectory(*weights_, model, "").ok());
  const Status again = SaveModelDirectory(*weights_, model, "");
  EXPECT_EQ(again.code(), Code::kExists);
  EXPECT_THAT(again.message(), HasSubstr("--replace"));
  EXPECT_TRUE(SaveModelDirectory(*weights_, model, "", /*replace=*/true).ok());
}

TEST_F(CheckpointTest, TheTrainersThreadCarriesOutCommandsInOrder) {
  RealClock clock;
  const auto channel = NewLocalWeightChannel();
  Bell bell;
  TrainerThread thread(Make("tis"), *channel, clock,
                       {.threads = 1, .files_from = "", .keep_last = 1});
  thread.events().Attach(bell);
  thread.Train(Batch(0));
  thread.Publish(2, 1);
  thread.Checkpoint({1, 2, folder_ + "/step-1"});
  thread.Checkpoint({2, 2, folder_ + "/step-2"});
  thread.Checkpoint({3, 2, folder_ + "/step-3"});
  thread.Publish(2, 1);  // not above the newest
  ASSERT_TRUE(bell.WaitPast(5));
  std::vector<TrainerEvent> answers;
  std::vector<CheckpointDone> written;  // answered when they are there
  for (TrainerEvent& event : thread.events().TakeAll()) {
    if (auto* done = std::get_if<CheckpointDone>(&event)) {
      written.push_back(*done);
    } else {
      answers.push_back(std::move(event));
    }
  }
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(std::get<TrainDone>(answers[0]).status.ok());
  EXPECT_GT(std::get<TrainDone>(answers[0]).metrics.at("tokens"), 0);
  EXPECT_TRUE(std::get<PublishDone>(answers[1]).status.ok());
  EXPECT_EQ(std::get<PublishDone>(answers[2]).status.code(), Code::kInvalid);
  ASSERT_EQ(written.size(), 3u);
  EXPECT_TRUE(written[0].status.ok() && written[1].status.ok() && written[2].status.ok());
  EXPECT_EQ(written[0].step, 1u);
  EXPECT_EQ(written[1].step, 2u);
  EXPECT_FALSE(fs::exists(folder_ + "/step-1"));
  EXPECT_TRUE(fs::exists(folder_ + "/step-2"));  // the newest may not be in the database yet
  EXPECT_TRUE(fs::exists(folder_ + "/step-3"));
  const auto published = channel->NewerThan(1);
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->version, 2u);
  ASSERT_NE(published->weights, nullptr);
}

// Two trainers take the same steps. One is told to save after the first and trains on at once, the
// other has no memory for a copy and saves in its turn.
TEST_F(CheckpointTest, WhatIsWrittenWhileTrainingGoesOnIsWhatWasThereInItsTurn) {
  RealClock clock;
  for (const uint64_t memory : {uint64_t{0}, uint64_t{1000}}) {
    const auto channel = NewLocalWeightChannel();
    Bell bell;
    TrainerThreadOptions options;
    options.host_memory_bytes = memory;
    TrainerThread thread(Make("vtrace"), *channel, clock, options);
    thread.events().Attach(bell);
    thread.Train(Batch(0));
    thread.Publish(2, 1);
    thread.Checkpoint({1, 2, folder_ + "/step-" + std::to_string(memory)});
    for (uint64_t step = 1; step < 4; ++step) {
      thread.Train(Batch(step));
      thread.Publish(step + 2, step + 1);
    }
    ASSERT_TRUE(bell.WaitPast(8));
    for (const TrainerEvent& event : thread.events().TakeAll()) {
      const auto* done = std::get_if<CheckpointDone>(&event);
      if (done == nullptr) continue;
      EXPECT_TRUE(done->status.ok()) << done->status.ToString();
      EXPECT_GT(done->pause_seconds, 0);
      EXPECT_EQ(memory == 0, done->pause_seconds < done->seconds);
    }
  }
  auto expected = Make("vtrace");
  Train(*expected, 0, 1);
  for (const char* name : {"/step-0", "/step-1000"}) {
    auto saved = Make("vtrace", /*seed=*/99);
    ASSERT_TRUE(LoadCheckpoint(folder_ + name, *saved).ok());
    ExpectSame(WeightsOf(*saved), WeightsOf(*expected));
    ExpectSame(saved->OptimizerState(), expected->OptimizerState());
    ExpectSame(saved->ValueHead(), expected->ValueHead());
  }
}

TEST_F(CheckpointTest, AFailureOfTheWriterIsToldAndTheTrainerGoesOn) {
  RealClock clock;
  const auto channel = NewLocalWeightChannel();
  Bell bell;
  TrainerThread thread(Make("tis"), *channel, clock, {});
  thread.events().Attach(bell);
  std::ofstream(folder_ + "/file") << "no directory";
  thread.Checkpoint({1, 2, folder_ + "/file/step-1"});
  thread.Train(Batch(0));
  thread.Checkpoint({2, 2, folder_ + "/step-2"});
  ASSERT_TRUE(bell.WaitPast(2));
  size_t failed = 0;
  for (const TrainerEvent& event : thread.events().TakeAll()) {
    if (const auto* trained = std::get_if<TrainDone>(&event)) {
      EXPECT_TRUE(trained->status.ok());
    }
    const auto* done = std::get_if<CheckpointDone>(&event);
    if (done != nullptr && !done->status.ok()) {
      ++failed;
      EXPECT_EQ(done->step, 1u);
      EXPECT_THAT(done->status.message(), HasSubstr("/file/step-1"));
    }
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_TRUE(fs::exists(folder_ + "/step-2/trainer_state.json"));
}

TEST_F(CheckpointTest, TheTrainersThreadGoesBackToWhatItPublished) {
  RealClock clock;
  const auto channel = NewLocalWeightChannel();
  Bell bell;
  TrainerThreadOptions options;
  options.keep_every_steps = options.first_version = 1;
  TrainerThread thread(Make("tis"), *channel, clock, options);
  thread.events().Attach(bell);
  size_t answers = 0;
  const auto weights = [&](uint64_t newer_than) {
    EXPECT_TRUE(bell.WaitPast(static_cast<int>(answers) - 1));
    const auto published = channel->NewerThan(newer_than);
    EXPECT_TRUE(published.ok());
    const auto policy = std::static_pointer_cast<const PolicyWeights>(published->weights);
    return std::pair{published->version, policy->tensors().begin()->second.clone()};
  };
  thread.Train(Batch(0));
  thread.Publish(2, 1);
  answers += 2;
  const auto second = weights(1);
  thread.NeedOnly({2});
  thread.Train(Batch(1));
  thread.Publish(3, 2);
  thread.Train(Batch(2));
  thread.Publish(4, 3);
  answers += 4;
  const auto fourth = weights(2);
  EXPECT_FALSE(at::equal(second.second, fourth.second));
  thread.SetBack({.to = 2, .version = 5, .step = 3});
  answers += 1;
  const auto back = weights(4);
  EXPECT_EQ(back.first, 5u);
  EXPECT_TRUE(at::equal(second.second, back.second));
  thread.SetBack({.to = 1, .version = 6, .step = 3});
  answers += 1;
  ASSERT_TRUE(bell.WaitPast(static_cast<int>(answers) - 1));
  const auto events = thread.events().TakeAll();
  EXPECT_TRUE(std::get<SetBackDone>(events[events.size() - 2]).status.ok());
  EXPECT_EQ(std::get<SetBackDone>(events.back()).status.code(), Code::kNotFound) << "not needed";
}

}  // namespace
}  // namespace tidemill
