// Checkpoints of weights in bfloat16 with low halves. Skipped where there is no GPU.
#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "learner/snapshot_gate.h"
#include "learner/torch/checkpoint.h"
#include "model/torch/host_copy.h"
#include "model/torch/moved_weights.h"
#include "testing/gpu_test_kit.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class NarrowCheckpoint : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> Make(bool narrow, uint64_t seed = 1) const {
    TrainerOptions options;
    options.objective = *ObjectivePreset("vtrace");  // with a value head, which stays float32
    options.schedule = {.peak = 1e-3, .warmup_steps = 3};
    options.minibatches = 2;
    options.bfloat16 = true;
    options.publish_dtype = Dtype::kBF16;
    options.adamw.moments_in_blocks = narrow;
    auto weights = MovedWeights(TinyWeights(TinyConfig(), seed), kTestDevice, at::kFloat);
    EXPECT_TRUE(weights.ok());
    auto trainer = Trainer::New(*weights, options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
    return std::move(*trainer);
  }
  void Train(Trainer& trainer, uint64_t first, uint64_t last) const {
    for (uint64_t step = first; step < last; ++step) {
      v1::Batch batch = RandomBatch(*weights_, step, /*groups=*/1);
      batch.set_step(step);
      const auto report = trainer.Train(batch);
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      trainer.NotePublished(step + 2, step + 1);
    }
  }
  static void ExpectSame(const NamedTensors& got, const NamedTensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(at::equal(HostCopy(tensor), HostCopy(got.at(name)))) << name;
    }
  }
  static void ExpectSame(const Trainer& got, const Trainer& expected) {
    ExpectSame(WeightsOf(got), WeightsOf(expected));
    ExpectSame(got.OptimizerState(), expected.OptimizerState());
    ExpectSame(got.ValueHead(), expected.ValueHead());
  }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
};

TEST_F(NarrowCheckpoint, ARunResumedFromItGoesOnBitForBit) {
  SKIP_WITHOUT_GPU();
  for (const uint64_t at : {uint64_t{0}, uint64_t{3}}) {  // also before there are moments
    const std::string dir = folder_ + "/step-" + std::to_string(at);
    auto whole = Make(true);
    Train(*whole, 0, at);
    ASSERT_TRUE(SaveCheckpoint(*whole, dir, {at, at + 1}, "").ok());
    auto resumed = Make(true, /*seed=*/99);
    const auto info = LoadCheckpoint(dir, *resumed);
    ASSERT_TRUE(info.ok()) << info.status().ToString();
    ExpectSame(*resumed, *whole);
    if (!kGpuOnCpu) continue;  // on a GPU sums are added up in another order each time
    Train(*whole, at, 6);
    Train(*resumed, at, 6);
    ExpectSame(*resumed, *whole);
  }
}

TEST_F(NarrowCheckpoint, HoldsAModelInBfloat16) {
  SKIP_WITHOUT_GPU();
  auto trainer = Make(true);
  Train(*trainer, 0, 2);
  CopyMemory memory;
  auto copy = CopyToHost(ContentOf(*trainer, {2, 3}), memory);
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  const NamedTensors then = (*trainer->Snapshot())->tensors();
  Train(*trainer, 2, 3);
  ASSERT_TRUE(WriteCheckpoint(*copy, folder_ + "/step-2", "").ok());
  const auto loaded = PolicyWeights::Load(folder_ + "/step-2");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ((*loaded)->config().dtype, Dtype::kBF16);
  ExpectSame((*loaded)->tensors(), then);
}

// Copied by other threads from when the next update stands waiting.
TEST_F(NarrowCheckpoint, WhatIsCopiedBesideTrainingIsWhatWasThereBefore) {
  SKIP_WITHOUT_GPU();
  auto trainer = Make(true);
  Train(*trainer, 0, 2);
  const CheckpointContent content = ContentOf(*trainer, {2, 3});
  CopyMemory memory;
  const auto still = CopyToHost(content, memory);
  ASSERT_TRUE(still.ok()) << still.status().ToString();
  auto copy = CheckpointCopy::Begin(content, memory);
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  const RealClock clock;
  SnapshotGate& gate = trainer->gate();
  gate.Begin(clock);
  Result<CheckpointContent> taken = Internal("not taken");
  std::thread copying([&] {
    EXPECT_TRUE(Eventually([&] { return gate.waiting(); })) << "the update did not wait";
    taken = copy->Take();
    EXPECT_GT(gate.Complete(), Duration::zero());
  });
  Train(*trainer, 2, 3);
  copying.join();
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  EXPECT_EQ(taken->state, still->state);
  ExpectSame(taken->parameters, still->parameters);
  ExpectSame(taken->value_head, still->value_head);
  ExpectSame(taken->optimizer, still->optimizer);
  const auto& [name, weight] = *still->parameters.begin();
  EXPECT_FALSE(at::equal(HostCopy(trainer->Parameters().at(name)), weight)) << "nothing changed";
}

TEST_F(NarrowCheckpoint, IsNotReadByARunWithFloat32WeightsNorTheReverse) {
  SKIP_WITHOUT_GPU();
  auto narrow = Make(true), wide = Make(false);
  Train(*narrow, 0, 1);
  Train(*wide, 0, 1);
  ASSERT_TRUE(SaveCheckpoint(*narrow, folder_ + "/step-1", {1, 2}, "").ok());
  ASSERT_TRUE(SaveCheckpoint(*wide, folder_ + "/step-2", {2, 3}, "").ok());
  const NamedTensors before = WeightsOf(*wide);
  EXPECT_THAT(LoadCheckpoint(folder_ + "/step-1", *wide).status().message(),
              HasSubstr("the weights here are float32"));
  EXPECT_THAT(LoadCheckpoint(folder_ + "/step-2", *narrow).status().message(),
              HasSubstr("the weights here are bfloat16"));
  ExpectSame(WeightsOf(*wide), before);
}

}  // namespace
}  // namespace tidemill
