// Models with experts in the engine: the experts that the engine tells are those that routers
// choose when the whole sequence is computed at once, wherever its rows came from.
#include "model/torch/aten.h"

#include "engine/engine.h"

#include <gmock/gmock.h>

#include "model/layer_plan.h"
#include "model/torch/lora.h"
#include "testing/engine_check.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using SharedWeights = std::shared_ptr<const PolicyWeights>;

// The choices of each row, all layers together.
std::vector<uint16_t> RoutersChoices(const PolicyWeights& weights,
                                     const std::vector<TokenId>& tokens) {
  const at::NoGradGuard no_grad;
  RouterNotes notes;
  (void)ForwardHidden(weights.config(), weights.view(), Pack({tokens}), std::nullopt, false,
                      &notes);
  const at::Tensor all = at::cat(notes.chosen, 1).contiguous();
  const int64_t* data = all.data_ptr<int64_t>();
  return {data, data + all.numel()};
}

class EngineExperts : public testing::TestWithParam<ModelFamily> {
 protected:
  static ModelConfig Config() {
    ModelConfig config = TinyConfig(GetParam());
    config.initializer_range = 0.3;
    return config;
  }
  static std::vector<TokenId> Prompt(size_t length, int32_t first = 1) {
    std::vector<TokenId> prompt(length);
    for (size_t i = 0; i < length; ++i) {
      prompt[i] = static_cast<TokenId>((static_cast<size_t>(first) + i * i * 7) % 37);
    }
    return prompt;
  }
  // The last turn of a sequence tells rows from `first` on up to the one its last token came from.
  void ExpectExperts(const EngineRun& run, SequenceId id, uint32_t first) const {
    const std::vector<TokenId>& tokens = run.Tokens(id);
    const std::vector<uint16_t> all = RoutersChoices(*weights_, tokens);
    const TokenExperts& told = run.Turn(id).experts;
    EXPECT_EQ(told.first, first);
    EXPECT_EQ(told.choices, PlanDecoder(weights_->config()).ChoicesOfToken());
    ASSERT_EQ(told.first + told.rows() + 1, tokens.size());
    const size_t skip = size_t{told.first} * told.choices;
    EXPECT_EQ(told.chosen, std::vector<uint16_t>(all.begin() + static_cast<long>(skip),
                                                 all.end() - told.choices));
  }

  const SharedWeights weights_ = *PolicyWeights::NewRandom(Config(), 1);
};

INSTANTIATE_TEST_SUITE_P(Families, EngineExperts,
                         testing::Values(ModelFamily::kQwen3Moe, ModelFamily::kMixtral),
                         [](const auto& info) { return std::string(ModelFamilyName(info.param)); });

TEST_P(EngineExperts, AreToldOfEachRowOnceAlsoOfSharedPromptsAndLaterTurns) {
  for (const int32_t steps : {1, 2}) {
    EngineRun run(weights_, {.prefill_chunk = 7, .threads = 2, .steps_at_once = steps});
    for (SequenceId id = 1; id <= 5; ++id) {
      run.Add(id, Prompt(37), {.max_new_tokens = static_cast<int32_t>(3 + id), .seed = id}, 9);
    }
    run.Finish();
    run.ExpectPlainLogprobs();
    for (SequenceId id = 1; id <= 5; ++id) ExpectExperts(run, id, 0);
    run.Continue(2, {4, 5, 6}, {.max_new_tokens = 6, .seed = 8});
    run.Finish();
    run.ExpectPlainLogprobs();
    ExpectExperts(run, 2, 37 + 5 - 1);
  }
}

TEST_P(EngineExperts, AreToldOnceThoughTheirRowsAreComputedAgain) {
  // A page of 16 positions has keys and values of 2 layers, 2 heads, 8 + 16 numbers each.
  EngineRun run(weights_, {.prefill_chunk = 7, .cache_bytes = 8 * 2 * 2 * 16 * (8 + 16) * 4});
  for (SequenceId id = 1; id <= 4; ++id) {
    run.Add(id, Prompt(20, static_cast<int32_t>(id)), {.max_new_tokens = 25, .seed = id});
  }
  run.Finish();
  EXPECT_GT(run.engine().Stats().rebuilt_tokens, 0u);
  for (SequenceId id = 1; id <= 4; ++id) ExpectExperts(run, id, 0);
}

TEST_P(EngineExperts, OfASessionsNextSequenceComeFromTheCache) {
  EngineRun run(weights_, {.prefill_chunk = 64});
  const auto start = [&](SequenceId id, std::vector<TokenId> prompt) {
    run.AddStart({.id = id,
                  .prompt = std::move(prompt),
                  .turn = {.max_new_tokens = 10, .seed = id},
                  .tenant = 1,
                  .session = 1});
    run.Finish();
  };
  start(1, Prompt(40));
  std::vector<TokenId> next = run.Tokens(1);
  next.insert(next.end(), {1, 2, 3});
  run.Release(1);
  start(2, next);
  EXPECT_GE(run.Turn(2).cached_tokens, 48u);
  ExpectExperts(run, 2, 0);
}

TEST_P(EngineExperts, WithAdaptersOnThemHaveThePlainLogprobs) {
  LoraConfig lora;
  lora.rank = 3;
  lora.alpha = 5;
  lora.experts = true;
  lora.target_pattern = "all-linear";
  LoraAdapter adapter = **NewAdapter(lora, weights_->config(), 4);
  at::manual_seed(5);
  for (auto& [name, tensor] : adapter.tensors) tensor = at::randn(tensor.sizes()) * 0.3;
  const auto adapted =
      PolicyWeights::WithAdapter(weights_, std::make_shared<const LoraAdapter>(adapter));
  ASSERT_TRUE(adapted.ok()) << adapted.status().ToString();
  EngineRun run(*adapted, {.prefill_chunk = 5});
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Add(id, Prompt(11, static_cast<int32_t>(id)), {.max_new_tokens = 9, .seed = id});
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

}  // namespace
}  // namespace tidemill
