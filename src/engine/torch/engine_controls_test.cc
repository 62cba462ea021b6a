// Penalties, tokens that may not come yet, and what the model says of a prompt.
#include <gtest/gtest.h>

#include <set>

#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

class EngineControls : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    auto weights = PolicyWeights::NewRandom(TinyConfig(), 5);
    ASSERT_TRUE(weights.ok());
    weights_ = *weights;
    auto engine = NewEngine(weights_, 1,
                            {.max_context = 128,
                             .max_running = 8,
                             .prefill_chunk = GetParam(),
                             .cache_bytes = uint64_t{200} * 6144});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }

  TurnOutput Turn(std::vector<TokenId> prompt, TurnParams turn) {
    const Status added = engine_->Add({.id = 1, .prompt = std::move(prompt), .turn = turn});
    EXPECT_TRUE(added.ok()) << added.ToString();
    while (engine_->Work()) {
      auto finished = engine_->Step();
      EXPECT_TRUE(finished.ok()) << finished.status().ToString();
      if (!finished.ok()) break;
      if (finished->empty()) continue;
      EXPECT_TRUE(engine_->Release(1).ok());
      return std::move(finished->front());
    }
    return {};
  }

  std::shared_ptr<const PolicyWeights> weights_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineControls, APenaltyKeepsTokensFromComingAgain) {
  TurnParams turn{.sampling = {.temperature = 0}, .max_new_tokens = 40};
  turn.controls.presence_penalty = 1000;
  const TurnOutput output = Turn({3, 4, 5}, turn);
  // All of the vocabulary comes once before anything comes again.
  const auto vocabulary = static_cast<size_t>(TinyConfig().vocab_size);
  ASSERT_GT(output.ids.size(), vocabulary);
  EXPECT_EQ(std::set<TokenId>(output.ids.begin(), output.ids.begin() + vocabulary).size(),
            vocabulary);
}

TEST_P(EngineControls, ABiasChoosesAToken) {
  TurnParams turn{.max_new_tokens = 5};
  turn.controls.logit_bias = {{17, 1000.0f}};
  EXPECT_EQ(Turn({3, 4, 5}, turn).ids, std::vector<TokenId>(5, 17));
}

TEST_P(EngineControls, NoTokenEndsATurnBeforeItsLeastLength) {
  TurnParams turn{.max_new_tokens = 30};
  for (TokenId id = 0; id < TinyConfig().vocab_size; id += 2) turn.stop_ids.push_back(id);
  turn.controls.min_tokens = 12;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    turn.seed = seed;
    const TurnOutput output = Turn({3, 4, 5}, turn);
    EXPECT_GE(output.ids.size(), 13u);
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(output.ids[i] % 2, 1) << i;
  }
}

// Parts of prompts come in chunks of several lengths; each token is told once.
TEST_P(EngineControls, APromptsLogProbabilitiesAreThoseOfDraws) {
  Random random(2);
  std::vector<TokenId> prompt(41);
  for (TokenId& id : prompt) {
    id = static_cast<TokenId>(random.Below(static_cast<uint64_t>(TinyConfig().vocab_size)));
  }
  TurnParams drawn{.sampling = {.top_logprobs = 2}, .max_new_tokens = 20, .seed = 9};
  const TurnOutput first = Turn(prompt, drawn);
  std::vector<TokenId> longer = prompt;
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  TurnParams scored{.max_new_tokens = 2};
  scored.prompt_logprobs = 2;
  const TurnOutput second = Turn(longer, scored);
  ASSERT_EQ(second.prompt.size(), longer.size() - 1);
  for (size_t i = 0; i < first.ids.size(); ++i) {
    const PromptLogprob& told = second.prompt[prompt.size() - 1 + i];
    EXPECT_NEAR(told.logprob, first.model_logprobs[i], 1e-4) << i;
    ASSERT_EQ(told.top.size(), 2u);
    EXPECT_EQ(told.top[0].id, first.top[i][0].id);
  }
}

TEST_P(EngineControls, APromptsStateIsTheSumOfItsHiddenStates) {
  for (const size_t length : {size_t{1}, size_t{2}, size_t{40}}) {
    std::vector<TokenId> prompt;
    for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(3 + 5 * i % 30));
    TurnParams turn{.max_new_tokens = 1};
    turn.prompt_state = true;
    const TurnOutput output = Turn(prompt, turn);
    const at::Tensor sum =
        ForwardHidden(weights_->config(), weights_->view(), Pack({prompt})).sum(0).to(at::kFloat);
    ASSERT_EQ(output.prompt_state.size(), static_cast<size_t>(sum.size(0)));
    for (int64_t i = 0; i < sum.size(0); ++i) {
      EXPECT_NEAR(output.prompt_state[static_cast<size_t>(i)], sum[i].item<float>(),
                  1e-3 * static_cast<double>(length));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, EngineControls, testing::Values(7, 16, 64));

}  // namespace
}  // namespace tidemill
