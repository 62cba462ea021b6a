#include "model/torch/recompute.h"

#include <gtest/gtest.h>

#include "model/torch/aten.h"
#include "model/torch/model.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

ModelConfig Shape(ModelFamily family) {
  ModelConfig config = TinyConfig(family);
  config.initializer_range = 0.2;  // outputs that differ
  return config;
}

std::map<std::string, at::Tensor> Gradients(TrainableModel& model, bool recompute) {
  const PackedBatch batch = Pack({{1, 7, 3, 9, 30, 4, 4, 8, 1, 20, 31, 12, 7}, {2, 2, 36, 5}});
  for (auto& [name, leaf] : model.parameters()) leaf.mutable_grad() = at::Tensor();
  model.Forward(batch, std::nullopt, recompute).square().sum().backward();
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, leaf] : model.parameters()) {
    EXPECT_TRUE(leaf.grad().defined()) << name;
    gradients[name] = leaf.grad().clone();
  }
  return gradients;
}

void ExpectSameGradients(TrainableModel& model) {
  const auto kept = Gradients(model, false);
  const auto recomputed = Gradients(model, true);
  for (const auto& [name, gradient] : kept) {
    EXPECT_GT(gradient.abs().max().item<double>() + (name.ends_with("lora_A.weight") ? 1 : 0), 0)
        << name;
    EXPECT_TRUE(at::allclose(recomputed.at(name), gradient, 1e-5, 1e-6)) << name;
  }
}

TEST(Recompute, GradientsAreThoseOfThePassThatKeepsEverything) {
  for (const ModelFamily family : AllFamilies()) {
    SCOPED_TRACE(ModelFamilyName(family));
    const auto weights = PolicyWeights::NewRandom(Shape(family), 5);
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    const auto model = TrainableModel::FromWeights(**weights);
    ASSERT_TRUE(model.ok()) << model.status().message();
    ExpectSameGradients(**model);
  }
}

TEST(Recompute, AdaptersLearnAboveFrozenEmbeddings) {
  const auto base = PolicyWeights::NewRandom(Shape(ModelFamily::kQwen2), 6);
  ASSERT_TRUE(base.ok());
  LoraConfig lora;
  lora.rank = 2;
  lora.target_pattern = "all-linear";
  const auto adapter = NewAdapter(lora, (*base)->config(), 3);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  const auto weights = PolicyWeights::WithAdapter(*base, *adapter);
  ASSERT_TRUE(weights.ok());
  const auto model = TrainableModel::FromAdapter(*weights);
  ASSERT_TRUE(model.ok());
  ExpectSameGradients(**model);
}

TEST(Recompute, RunsThePartOnceWithoutGradientsAndTwiceWithThem) {
  int runs = 0;
  const auto part = [&runs](const at::Tensor& x) {
    ++runs;
    return x * x;
  };
  const at::Tensor x = at::full({3}, 2.0).set_requires_grad(true);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(Recomputed(x, part).requires_grad());
  }
  EXPECT_EQ(runs, 1);
  Recomputed(x, part).sum().backward();
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(at::allclose(x.grad(), at::full({3}, 4.0)));
}

}  // namespace
}  // namespace tidemill
