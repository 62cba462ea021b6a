// Weights of the engine in eight bits: what it gives is the model with rounded matrices.
#include "model/torch/aten.h"

#include "engine/engine.h"

#include "testing/engine_check.h"
#include "testing/int8_rounding.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using SharedWeights = std::shared_ptr<const PolicyWeights>;

class EngineInt8 : public testing::TestWithParam<ModelFamily> {
 protected:
  static SharedWeights Weights(uint64_t seed) {
    ModelConfig config = TinyConfig(GetParam());
    config.initializer_range = 0.3;
    return *PolicyWeights::NewRandom(config, seed);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, EngineInt8,
                         testing::Values(ModelFamily::kQwen2, ModelFamily::kGemma3,
                                         ModelFamily::kMixtral),
                         [](const auto& info) { return std::string(ModelFamilyName(info.param)); });

TEST_P(EngineInt8, HasTheLogprobsOfRoundedMatricesAlsoAfterASwap) {
  const SharedWeights weights = Weights(1), next = Weights(2);
  EngineRun run(weights, {.prefill_chunk = 7, .threads = 2, .int8_weights = true});
  const auto expect = [&](const PolicyWeights& rounded) {
    for (SequenceId id = 1; id <= 5; ++id) {
      run.Add(id, {1, 2, 3, static_cast<TokenId>(id), 7, 8}, {.max_new_tokens = 12, .seed = id});
    }
    run.Finish();
    for (SequenceId id = 1; id <= 5; ++id) {
      const std::vector<double> plain = PlainLogprobs(rounded, run.Tokens(id), 1.0);
      const std::vector<float>& mine = run.Turn(id).logprobs;
      for (size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], plain[5 + i], 1e-4) << id;
      run.Release(id);
    }
  };
  expect(*RoundedToSteps(*weights));
  ASSERT_TRUE(run.engine().SwapWeights(next, 2, CacheOnSwap::kRebuild).ok());
  expect(*RoundedToSteps(*next));
}

}  // namespace
}  // namespace tidemill
