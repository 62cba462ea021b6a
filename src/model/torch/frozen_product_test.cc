#include "model/torch/frozen_product.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include "model/torch/model.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

at::Tensor Drawn(at::IntArrayRef shape) {
  return at::randn(shape, at::TensorOptions().dtype(at::kFloat));
}

TEST(FrozenProduct, GivesWhatTheCastMatrixGivesAndNoGradientOfIt) {
  at::manual_seed(3);
  const at::Tensor weight = Drawn({5, 7}).to(at::kBFloat16), bias = Drawn({5}).to(at::kBFloat16);
  at::Tensor a = Drawn({4, 7}).set_requires_grad(true);
  at::Tensor b = a.detach().clone().set_requires_grad(true);
  for (const at::Tensor& with : {bias, at::Tensor()}) {
    const at::Tensor got = FrozenProduct(a, weight, with);
    const at::Tensor expected =
        at::linear(b, weight.to(at::kFloat),
                   with.defined() ? c10::optional<at::Tensor>(with.to(at::kFloat)) : c10::nullopt);
    EXPECT_TRUE(at::equal(got, expected));
    got.square().sum().backward();
    expected.square().sum().backward();
    EXPECT_TRUE(at::equal(a.grad(), b.grad()));
    EXPECT_FALSE(weight.grad().defined());
  }
}

// An adapter on a base of bfloat16 learns exactly as on the same base in float32.
TEST(FrozenProduct, AnAdapterOnABaseOfFewerBitsGetsTheSameGradients) {
  const ModelConfig config = TinyConfig();
  const auto low = PolicyWeights::NewRandom(config, 4, Dtype::kBF16).value();
  NamedTensors widened;
  for (const auto& [name, tensor] : low->tensors()) widened[name] = tensor.to(at::kFloat);
  const auto wide = PolicyWeights::FromTensors(config, widened).value();
  LoraConfig lora;
  lora.rank = 4;
  lora.target_pattern = "all-linear";
  const auto drawn = NewAdapter(lora, config, 9).value();
  // B begins as zero, and then A gets no gradient.
  LoraAdapter moved = *drawn;
  for (auto& [name, tensor] : moved.tensors) tensor = tensor + 0.01;
  const auto adapter = std::make_shared<const LoraAdapter>(std::move(moved));
  const PackedBatch batch = Pack({{1, 2, 3, 4, 5}, {9, 8, 7}});
  const auto gradients = [&](const std::shared_ptr<const PolicyWeights>& base) {
    auto model =
        TrainableModel::FromAdapter(PolicyWeights::WithAdapter(base, adapter).value()).value();
    const at::Tensor hidden = model->Forward(batch);
    TokenLogprobs(model->view(), hidden, batch.tokens).logprobs.sum().backward();
    NamedTensors all;
    for (const auto& [name, leaf] : model->parameters()) all[name] = leaf.grad().clone();
    return all;
  };
  const NamedTensors got = gradients(low), expected = gradients(wide);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    EXPECT_TRUE(at::allclose(got.at(name), gradient, 1e-5, 1e-6)) << name;
    EXPECT_GT(gradient.norm().item<double>(), 0) << name;
  }
}

}  // namespace
}  // namespace tidemill
