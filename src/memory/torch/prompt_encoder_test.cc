#include "memory/torch/prompt_encoder.h"

#include <gtest/gtest.h>

#include "model/torch/aten.h"
#include "model/torch/model.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

TEST(PromptEncoder, GivesTheMeanOfTheHiddenStates) {
  const ModelConfig config = TinyConfig();
  const auto weights = PolicyWeights::NewRandom(config, 3);
  ASSERT_TRUE(weights.ok());
  const int layers = static_cast<int>((*weights)->view().layers.size());
  auto encoder = PromptEncoder::Make(*weights, layers);
  ASSERT_TRUE(encoder.ok());
  const std::vector<TokenId> ids = {1, 5, 2, 7};
  const auto vector = encoder->Encode(ids);
  ASSERT_TRUE(vector.ok()) << vector.status().ToString();
  const at::Tensor hidden = ForwardHidden(config, (*weights)->view(), Pack({ids}));
  for (size_t i = 0; i < vector->size(); ++i) {
    double sum = 0;
    for (int64_t row = 0; row < 4; ++row) {
      sum += hidden[row][static_cast<int64_t>(i)].item<double>();
    }
    EXPECT_NEAR((*vector)[i], sum / 4, 1e-5);
  }
  EXPECT_EQ(PromptEncoder::Make(*weights, layers + 1).status().code(), Code::kInvalid);
  EXPECT_EQ(encoder->Encode({}).status().code(), Code::kInvalid);
}

TEST(PromptEncoder, ReadsNoMoreThanTheContext) {
  const auto weights = PolicyWeights::NewRandom(TinyConfig(), 3);
  ASSERT_TRUE(weights.ok());
  const auto encoder = PromptEncoder::Make(*weights, 0);
  ASSERT_TRUE(encoder.ok());
  const auto context = static_cast<size_t>((*weights)->config().max_position_embeddings);
  std::vector<TokenId> ids(std::min(context, PromptEncoder::kTokensRead), 5);
  const auto whole = encoder->Encode(ids);
  ids.insert(ids.end(), 10, 7);
  const auto longer = encoder->Encode(ids);
  ASSERT_TRUE(whole.ok() && longer.ok()) << longer.status().ToString();
  EXPECT_EQ(*whole, *longer);
}

TEST(WeightsDigest, DiffersForOtherWeights) {
  const auto one = PolicyWeights::NewRandom(TinyConfig(), 3);
  const auto same = PolicyWeights::NewRandom(TinyConfig(), 3);
  const auto other = PolicyWeights::NewRandom(TinyConfig(), 4);
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  EXPECT_EQ(*WeightsDigest(**one), *WeightsDigest(**same));
  EXPECT_NE(*WeightsDigest(**one), *WeightsDigest(**other));
}

}  // namespace
}  // namespace tidemill
