// A whole step of the trainer on a GPU in bfloat16 against one in float32. Skipped where there is
// no GPU.
#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include "model/torch/lora.h"
#include "model/torch/moved_weights.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

struct StepCase {
  bool lora, recompute;
};
class CudaTrainer : public testing::TestWithParam<StepCase> {};

TEST_P(CudaTrainer, AStepInBfloat16IsNearlyThatInFloat32) {
  SKIP_WITHOUT_GPU();
  const auto plain = TinyWeights(TinyConfig());
  const v1::Batch batch = RandomBatch(*plain, 7);
  auto moved = MovedWeights(plain, kTestDevice, at::kFloat);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  std::shared_ptr<const PolicyWeights> weights = *moved;
  if (GetParam().lora) {
    LoraConfig config;
    config.target_modules = {"q_proj", "v_proj", "up_proj"};
    auto adapter = NewAdapter(config, weights->config(), 3, kTestDevice);
    ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
    weights = *PolicyWeights::WithAdapter(weights, *adapter);
  }
  TrainerOptions options;
  options.objective = *ObjectivePreset("grpo");
  options.schedule.peak = 1e-3;
  options.fused = false;
  std::map<std::string, double> metrics[2];
  at::Tensor moves[2];  // of all parameters, in three steps
  for (const bool low : {false, true}) {
    options.bfloat16 = low;
    options.recompute = low && GetParam().recompute;
    auto trainer = Trainer::New(weights, options, weights);
    ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
    const auto flat = [&] {
      std::vector<at::Tensor> all;
      for (const auto& [name, leaf] : (*trainer)->Leaves()) {
        all.push_back(leaf.detach().to(at::kCPU, at::kDouble).flatten());
      }
      return at::cat(all);
    };
    const at::Tensor before = flat();
    for (int step = 0; step < 3; ++step) {
      auto report = (*trainer)->Train(batch);
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      if (step == 0) metrics[low] = report->metrics;
    }
    moves[low] = flat() - before;
  }
  // Advantages add up to zero, and so does the loss while the policy is the one that drew.
  EXPECT_NEAR(metrics[1].at("loss"), metrics[0].at("loss"), 0.02);
  for (const char* name : {"grad_norm", "entropy"}) {
    EXPECT_NEAR(metrics[1].at(name) / metrics[0].at(name), 1.0, 0.03) << name;
  }
  const double along = (moves[0] * moves[1]).sum().item<double>();
  EXPECT_GT(along / moves[0].norm().item<double>() / moves[1].norm().item<double>(), 0.95);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaTrainer,
                         testing::Values(StepCase{false, false}, StepCase{false, true},
                                         StepCase{true, false}, StepCase{true, true}));

// On a GPU without shares, and on the CPU in its place, there is a warning instead.
TEST(CudaTrainerShare, AStepOnAPartOfTheMultiprocessorsIsNearlyThatOnAll) {
  SKIP_WITHOUT_GPU();
  const auto plain = TinyWeights(TinyConfig());
  const v1::Batch batch = RandomBatch(*plain, 7);
  auto weights = MovedWeights(plain, kTestDevice, at::kFloat);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  TrainerOptions options;
  options.objective = *ObjectivePreset("grpo");
  options.schedule.peak = 1e-3;
  options.bfloat16 = true;
  at::Tensor moves[2];
  for (const bool share : {false, true}) {
    options.reserve_multiprocessors = share ? 16 : 0;
    auto trainer = Trainer::New(*weights, options, *weights);
    ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
    const auto flat = [&] {
      std::vector<at::Tensor> all;
      for (const auto& [name, leaf] : (*trainer)->Leaves()) all.push_back(leaf.detach().flatten());
      return at::cat(all).to(at::kCPU, at::kDouble);  // on libtorch's own stream
    };
    const at::Tensor before = flat();
    for (int step = 0; step < 3; ++step) {
      const auto report = (*trainer)->Train(batch);
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      const bool warned = share && step == 0 && (*trainer)->multiprocessors() == 0;
      EXPECT_EQ(report->warnings.size(), warned ? 1u : 0u);
      ASSERT_TRUE((*trainer)->Snapshot().ok());
    }
    moves[share] = flat() - before;
  }
  const double norm = moves[0].norm().item<double>();
  ASSERT_GT(norm, 0);
  EXPECT_LT((moves[0] - moves[1]).norm().item<double>() / norm, 0.05);
}

}  // namespace
}  // namespace tidemill
