// Trainers whose optimizer's state lies on the host (model/torch/host_state.h) against those that
// keep it on the GPU. Skipped where there is no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/torch/aten.h"
#include "model/torch/device.h"
#include "model/torch/host_copy.h"
#include "model/torch/moved_weights.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class HostStateTrainer : public ::testing::Test {
 protected:
  static TrainerOptions Options(bool host) {
    TrainerOptions options;
    options.objective = *ObjectivePreset("vtrace");  // with a value head, which stays float32
    options.schedule.peak = 1e-3;
    options.bfloat16 = true;
    options.publish_dtype = Dtype::kBF16;
    options.adamw.moments_in_blocks = true;
    options.adamw.weight_decay = 0.1;
    options.adamw.decay_matrices_only = true;
    options.adamw.state_on_host = host;
    options.adamw.host_piece_numbers = 1024;
    return options;
  }
  std::unique_ptr<Trainer> Make(const TrainerOptions& options, uint64_t seed = 1) const {
    auto there = MovedWeights(TinyWeights(TinyConfig(), seed), kTestDevice, at::kFloat);
    EXPECT_TRUE(there.ok()) << there.status().ToString();
    auto trainer = Trainer::New(*there, options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
    return std::move(*trainer);
  }
  v1::Batch Batch(uint64_t step) const {
    v1::Batch batch = RandomBatch(*weights_, step, /*groups=*/1);
    batch.set_step(step);
    return batch;
  }
  void Train(Trainer& trainer, uint64_t first, uint64_t last) const {
    for (uint64_t step = first; step < last; ++step) {
      const auto report = trainer.Train(Batch(step));
      ASSERT_TRUE(report.ok()) << report.status().ToString();
    }
  }
  static void ExpectSame(const NamedTensors& got, const NamedTensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(at::equal(HostCopy(tensor), HostCopy(got.at(name)))) << name;
    }
  }
  // On a GPU sums are added up in another order each time.
  static void ExpectSame(const Trainer& got, const Trainer& expected) {
    if (!kGpuOnCpu) return;
    ExpectSame(got.OptimizerState(), expected.OptimizerState());
    ExpectSame(WeightsOf(got), WeightsOf(expected));
    ExpectSame(got.ValueHead(), expected.ValueHead());
  }
  static void Resume(const Trainer& from, Trainer& to) {
    const Status restored = to.Restore(from.Parameters(), from.ValueHead(), from.OptimizerState(),
                                       from.optimizer_steps(), from.progress());
    ASSERT_TRUE(restored.ok()) << restored.ToString();
  }

  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
};

TEST_F(HostStateTrainer, LearnsTheSameBitForBit) {
  SKIP_WITHOUT_GPU();
  auto host = Make(Options(true)), gpu = Make(Options(false));
  ExpectSame(WeightsOf(*host), WeightsOf(*gpu));
  for (uint64_t step = 0; step < 4; ++step) {
    Train(*host, step, step + 1);
    Train(*gpu, step, step + 1);
    if (step % 2 == 1) ExpectSame(*host, *gpu);
  }
}

TEST_F(HostStateTrainer, KeepsItsStateInMemoryOfTheHost) {
  SKIP_WITHOUT_GPU();
  auto trainer = Make(Options(true));
  Train(*trainer, 0, 2);
  size_t narrow = 0;
  for (const auto& [key, tensor] : trainer->SharedOptimizerState()) {
    const std::string name = key.substr(key.find('.') + 1);
    if (trainer->Leaves().at(name).scalar_type() != at::kBFloat16) continue;
    EXPECT_TRUE(tensor.is_cpu()) << key;
    ++narrow;
  }
  EXPECT_EQ(narrow, 5 * trainer->Parameters().size());
}

// The state is the same wherever it is kept.
TEST_F(HostStateTrainer, ARunIsResumedWithItsStateElsewhere) {
  SKIP_WITHOUT_GPU();
  for (const bool host : {false, true}) {
    for (const uint64_t at : {uint64_t{0}, uint64_t{2}}) {  // also before there are moments
      auto whole = Make(Options(host)), resumed = Make(Options(!host), /*seed=*/99);
      Train(*whole, 0, at);
      Train(*resumed, 0, 1);  // of another run, and gone
      Resume(*whole, *resumed);
      ExpectSame(resumed->OptimizerState(), whole->OptimizerState());
      Train(*whole, at, at + 1);
      Train(*resumed, at, at + 1);
      ExpectSame(*resumed, *whole);
    }
  }
}

TEST_F(HostStateTrainer, AStateThatDoesNotFitChangesNothing) {
  SKIP_WITHOUT_GPU();
  auto trainer = Make(Options(true));
  Train(*trainer, 0, 1);
  const NamedTensors before = trainer->OptimizerState(), weights = WeightsOf(*trainer);
  NamedTensors broken = before;
  broken.erase("v_scale.model.norm.weight");
  const Status refused =
      trainer->Restore(trainer->Parameters(), trainer->ValueHead(), broken, 1, trainer->progress());
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("optimizer state lacks"));
  ExpectSame(trainer->OptimizerState(), before);
  ExpectSame(WeightsOf(*trainer), weights);
}

// In the first step there are no moments yet, in the third there are.
TEST_F(HostStateTrainer, AStepWhoseSecondMinibatchFailsIsUndone) {
  SKIP_WITHOUT_GPU();
  TrainerOptions options = Options(true), plain = Options(false);
  options.minibatches = plain.minibatches = 3;
  int left = -1;
  options.on_microbatch = [&](int64_t) {
    if (left >= 0 && left-- == 0) throw std::runtime_error("no more");
  };
  auto trainer = Make(options), other = Make(plain);
  for (uint64_t step = 0; step < 3; ++step) {
    const NamedTensors weights = WeightsOf(*trainer), state = trainer->OptimizerState();
    left = 1;
    EXPECT_FALSE(trainer->Train(Batch(step)).ok());
    left = -1;
    ExpectSame(WeightsOf(*trainer), weights);
    ExpectSame(trainer->OptimizerState(), state);
    Train(*trainer, step, step + 1);
    Train(*other, step, step + 1);
    ExpectSame(*trainer, *other);
  }
}

TEST_F(HostStateTrainer, IsRefusedWithMomentsInFloat32) {
  SKIP_WITHOUT_GPU();
  TrainerOptions options = Options(true);
  options.adamw.moments_in_blocks = false;
  auto there = MovedWeights(weights_, kTestDevice, at::kFloat);
  ASSERT_TRUE(there.ok());
  const Status refused = Trainer::New(*there, options).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("learner.moments = int8"));
}

}  // namespace
}  // namespace tidemill
