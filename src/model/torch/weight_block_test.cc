#include "model/torch/weight_block.h"
#include "testing/tiny_config.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

ModelConfig Shape(bool tied, ModelFamily family = ModelFamily::kQwen2) {
  ModelConfig config;
  config.vocab_size = 50021;  // more than one piece, and no multiple of what is aligned
  config.hidden_size = 60;
  config.intermediate_size = 124;
  config.num_layers = 2;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 20;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  TakeFormOf(family, config);
  return config;
}

void ExpectSame(const PolicyWeights& block, const PolicyWeights& plain) {
  EXPECT_NE(WholeBlock(block), nullptr);
  EXPECT_EQ(WholeBlock(plain), nullptr);
  ASSERT_EQ(block.tensors().size(), plain.tensors().size());
  for (const auto& [name, tensor] : plain.tensors()) {
    EXPECT_EQ(block.tensors().at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(block.tensors().at(name), tensor)) << name;
  }
}

// As files of `stored`, in shards of at most `shard` bytes.
std::string Stored(const TemporaryDirectory& dir, const PolicyWeights& weights,
                   at::ScalarType stored, uint64_t shard) {
  const std::string path = dir.path() + "/model";
  std::filesystem::create_directories(path);
  NamedTensors narrow;
  for (const auto& [name, tensor] : weights.tensors()) narrow.emplace(name, tensor.to(stored));
  narrow.emplace("model.layers.0.self_attn.rotary_emb.inv_freq",
                 at::ones({10}, at::TensorOptions().dtype(at::kFloat)));
  const auto host = ToHost(narrow);
  EXPECT_TRUE(WriteModelTensors(path, host->views, shard).ok());
  EXPECT_TRUE(WriteModelConfig(weights.config(), path).ok());
  return path;
}

TEST(WeightBlock, LoadsWhatAPlainLoadDoesFromShardsOfEveryType) {
  const auto weights = *PolicyWeights::NewRandom(Shape(false), 3);
  for (const at::ScalarType stored : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const TemporaryDirectory dir;
    const std::string path = Stored(dir, *weights, stored, 5 << 20);
    EXPECT_TRUE(std::filesystem::exists(path + "/model.safetensors.index.json"));
    for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
      for (const int threads : {1, 3}) {
        const auto block = LoadWeightBlock(path, {.dtype = dtype, .threads = threads});
        ASSERT_TRUE(block.ok()) << block.status().ToString();
        ExpectSame(**block, **PolicyWeights::Load(path, {.dtype = dtype}));
        EXPECT_EQ((*block)->config().dtype, dtype);
      }
    }
  }
}

TEST(WeightBlock, HoldsTheRandomWeightsOfTheSameSeedAndCopiesOfOthers) {
  for (const ModelFamily family :
       {ModelFamily::kQwen2, ModelFamily::kQwen3, ModelFamily::kOlmo2, ModelFamily::kGemma3}) {
    const ModelConfig config = Shape(true, family);
    for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
      const auto plain = *PolicyWeights::NewRandom(config, 5, dtype);
      ExpectSame(**RandomWeightBlock(config, 5, {.dtype = dtype, .threads = 2}), *plain);
      ExpectSame(**CopyWeightBlock(*plain, {.dtype = dtype}), *plain);
      // Of others whose numbers do not lie one after the other.
      NamedTensors turned = plain->tensors();
      for (auto& [name, tensor] : turned) {
        if (tensor.dim() == 2) tensor = tensor.t().contiguous().t();
      }
      const auto strange = *PolicyWeights::FromTensors(config, turned);
      ExpectSame(**CopyWeightBlock(*strange, {.dtype = dtype}), *plain);
    }
  }
}

TEST(WeightBlock, WhatLiesBetweenTensorsIsZero) {
  const auto block = *RandomWeightBlock(Shape(true), 5, {.dtype = Dtype::kF32});
  const WeightLayout layout = MakeWeightLayout(block->config());
  const auto* numbers = static_cast<const float*>(WholeBlock(*block));
  ASSERT_NE(numbers, nullptr);
  size_t end = 0, gaps = 0;
  for (const WeightPlace& place : layout.places) {
    for (size_t i = end; i < place.first; ++i, ++gaps) ASSERT_EQ(numbers[i], 0.0f) << i;
    end = place.first + place.numbers();
  }
  EXPECT_GT(gaps, 0u);
}

TEST(WeightBlock, NamesTheTensorThatIsMissingOrOfAnotherShapeOrType) {
  const auto weights = *PolicyWeights::NewRandom(Shape(true), 3);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const auto load = [&](const std::function<void(NamedTensors&)>& change) {
    const TemporaryDirectory dir;
    NamedTensors tensors = weights->tensors();
    change(tensors);
    const auto host = ToHost(tensors);
    EXPECT_TRUE(WriteModelTensors(dir.path(), host->views).ok());
    EXPECT_TRUE(WriteModelConfig(weights->config(), dir.path()).ok());
    const auto block = LoadWeightBlock(dir.path(), {});
    EXPECT_EQ(block.status().code(), Code::kInvalid);
    EXPECT_NE(block.status().message().find(dir.path()), std::string::npos);
    return block.status().message();
  };
  EXPECT_NE(load([&](NamedTensors& t) { t.erase(name); }).find(name + "\" is missing"),
            std::string::npos);
  EXPECT_NE(load([&](NamedTensors& t) {
              t[name] = t[name].narrow(0, 0, 7).clone();
            }).find("has shape [7, 60], the config requires [124, 60]"),
            std::string::npos);
  EXPECT_NE(load([&](NamedTensors& t) { t["extra"] = t[name]; }).find("\"extra\""),
            std::string::npos);
  EXPECT_NE(load([&](NamedTensors& t) { t[name] = t[name].to(at::kDouble); }).find("F64"),
            std::string::npos);
  EXPECT_EQ(LoadWeightBlock("/nowhere", {}).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tidemill
