// The optimizer against values computed by torch, and an adapter that learns.
#include "learner/torch/adamw.h"

#include "testing/golden.h"

namespace tidemill {
namespace {

class AdamWGolden : public GoldenModelTest {};

TEST_P(AdamWGolden, LossesAreThoseOfTorch) {
  auto model = TrainableModel::FromWeights(*weights_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const PackedBatch batch = Pack(sequences_);
  const at::Tensor& losses = Expected("adamw.losses");
  AdamW optimizer({.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  for (int64_t step = 0; step < losses.numel(); ++step) {
    ZeroGrad((*model)->parameters());
    const at::Tensor loss = MeanLoss((*model)->view(), (*model)->Forward(batch), batch, 1024);
    EXPECT_NEAR(loss.item<double>(), losses[step].item<double>(), 1e-4) << "step " << step;
    loss.backward();
    optimizer.Step((*model)->parameters(), 1e-3);
  }
  auto snapshot = (*model)->Snapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  const at::Tensor hidden =
      ForwardHidden((*snapshot)->config(), (*snapshot)->view(), Pack({sequences_[0]}));
  EXPECT_LT(MaxDifference(Logits((*snapshot)->view(), hidden), Expected("adamw.logits_after")),
            1e-3);
}

class AdapterGolden : public GoldenAdapterTest {};

TEST_P(AdapterGolden, OnlyTheAdapterLearns) {
  auto model = TrainableModel::FromAdapter(adapted_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const PackedBatch batch = Pack(sequences_);
  AdamW optimizer({});
  double first = 0, last = 0;
  for (int step = 0; step < 5; ++step) {
    ZeroGrad((*model)->parameters());
    const at::Tensor loss = MeanLoss((*model)->view(), (*model)->Forward(batch), batch, 1024);
    last = loss.item<double>();
    if (step == 0) first = last;
    loss.backward();
    EXPECT_GT(GradNorm((*model)->parameters()), 0);
    optimizer.Step((*model)->parameters(), 1e-2);
  }
  EXPECT_LT(last, first - 0.05);
  auto snapshot = (*model)->Snapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(&(*snapshot)->tensors(), &weights_->tensors());
  EXPECT_GT(MaxDifference(LogitsOf(**snapshot), lora_logits_), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Golden, AdamWGolden, testing::ValuesIn(GoldenModels()), GoldenName);
INSTANTIATE_TEST_SUITE_P(Golden, AdapterGolden, testing::ValuesIn(GoldenModels()), GoldenName);

}  // namespace
}  // namespace tidemill
