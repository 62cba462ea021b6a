#include "model/torch/adapter_block.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include "model/torch/linear.h"

namespace tidemill {
namespace {

ModelConfig SmallShape() {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 90;
  config.hidden_size = 24;
  config.intermediate_size = 44;
  config.num_layers = 3;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.qkv_bias = true;
  return config;
}

std::shared_ptr<const PolicyWeights> Adapted(const LoraConfig& lora) {
  const auto base = *PolicyWeights::NewRandom(SmallShape(), 3);
  LoraAdapter adapter = **NewAdapter(lora, base->config(), 4);
  at::manual_seed(5);
  for (auto& [name, tensor] : adapter.tensors) tensor = at::randn_like(tensor) * 0.2;
  return *PolicyWeights::WithAdapter(base, std::make_shared<const LoraAdapter>(adapter));
}

// What the block adds to a product must be what the modules' own adapters do.
void ExpectProducts(const PolicyWeights& weights, const AdapterLayout& layout) {
  const auto block = AdapterBlock(weights.adapter().get(), weights.config(), layout,
                                  at::Device(at::kCPU), at::kFloat);
  ASSERT_TRUE(block.ok()) << block.status().ToString();
  for (int64_t i = 0; i < weights.config().num_layers; ++i) {
    const LayerTensors& layer = weights.view().layers[static_cast<size_t>(i)];
    const std::vector<std::vector<const LinearTensors*>> products = {
        {&layer.q, &layer.k, &layer.v}, {&layer.o}, {&layer.gate, &layer.up}, {&layer.down}};
    for (size_t p = 0; p < products.size(); ++p) {
      const at::Tensor x = at::randn({5, layout.products[p].in});
      std::vector<at::Tensor> expected;
      for (const LinearTensors* linear : products[p]) {
        LinearTensors plain = *linear;
        plain.lora_a = plain.lora_b = at::Tensor();
        expected.push_back(Linear(x, *linear) - Linear(x, plain));
      }
      at::Tensor got = at::zeros({5, layout.products[p].out});
      if (layout.products[p].rank > 0) {
        const AdapterMatrices m =
            AdapterMatricesOf(*block, layout, i, static_cast<LayerProduct>(p));
        got = at::linear(at::linear(x, m.a), m.b);
      }
      EXPECT_TRUE(at::allclose(got, at::cat(expected, 1), 1e-4, 1e-4)) << i << " " << p;
    }
  }
}

TEST(AdapterBlock, AddsToEachProductWhatItsModulesAdaptersDo) {
  for (const int64_t rank : {1, 3, 8, 16}) {
    LoraConfig lora;
    lora.rank = rank;
    lora.alpha = 5;
    lora.target_pattern = "all-linear";
    const auto weights = Adapted(lora);
    const AdapterRanks ranks = RanksOf(*weights->adapter(), weights->config());
    for (const int64_t one : ranks) EXPECT_EQ(one, rank);
    const AdapterLayout layout = MakeAdapterLayout(weights->config(), ranks);
    for (const AdapterLayout::Product& product : layout.products) EXPECT_EQ(product.rank % 8, 0);
    ExpectProducts(*weights, layout);
  }
}

TEST(AdapterBlock, HoldsFewerModulesAndRanksThatDifferByLayer) {
  LoraConfig lora;
  lora.rank = 4;
  lora.alpha = 8;
  lora.target_modules = {"q_proj", "v_proj", "down_proj"};
  lora.rank_pattern = {{"layers.1.self_attn.v_proj", 6}};
  lora.alpha_pattern = {{"layers.2.self_attn.q_proj", 3}};
  const auto weights = Adapted(lora);
  const AdapterRanks ranks = RanksOf(*weights->adapter(), weights->config());
  EXPECT_EQ(ranks, (AdapterRanks{4, 0, 6, 0, 0, 0, 4}));
  const AdapterLayout layout = MakeAdapterLayout(weights->config(), ranks);
  EXPECT_EQ(layout.Of(LayerProduct::kO).rank, 0);
  EXPECT_EQ(layout.Of(LayerProduct::kQkv).rank, 16);
  ExpectProducts(*weights, layout);
  // In a larger one too; not in a smaller one.
  ExpectProducts(*weights, MakeAdapterLayout(weights->config(), {16, 16, 16, 16, 16, 16, 16}));
  const auto refused = AdapterBlock(weights->adapter().get(), weights->config(),
                                    MakeAdapterLayout(weights->config(), {4, 4, 4, 4, 4, 4, 4}),
                                    at::Device(at::kCPU), at::kFloat);
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_NE(refused.status().message().find("model.layers.1.self_attn.v_proj has rank 6"),
            std::string::npos)
      << refused.status().message();
}

TEST(AdapterBlock, WithoutAnAdapterIsZero) {
  const ModelConfig config = SmallShape();
  const AdapterLayout layout = MakeAdapterLayout(config, {2, 2, 2, 2, 2, 2, 2});
  const auto block = AdapterBlock(nullptr, config, layout, at::Device(at::kCPU), at::kBFloat16);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->numel(), static_cast<int64_t>(layout.numbers));
  EXPECT_FALSE(at::any(*block).item<bool>());
}

}  // namespace
}  // namespace tidemill
