// Engine and learner have the same log-probabilities to the last bit.
#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/torch/torch_engine.h"
#include "testing/engine_check.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

// Widths and heads that fill no vector register evenly, prompts of several pages.
ModelConfig UnevenConfig(ModelFamily family) {
  ModelConfig config = TinyConfig(family);
  config.hidden_size = 36;
  config.intermediate_size = 50;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 10;
  return config;
}

// Groups of sequences that an engine draws and a learner is rewarded for.
class Loop {
 public:
  explicit Loop(const std::shared_ptr<const PolicyWeights>& weights)
      : weights_(weights), run_(weights, {.prefill_chunk = 11, .threads = 2}) {}

  v1::Batch Draw(uint64_t step, float temperature) {
    v1::Batch batch;
    batch.set_step(step);
    batch.set_learner_version(step + 1);
    std::vector<SequenceId> ids;
    for (uint32_t group = 0; group < 2; ++group) {
      for (uint32_t member = 0; member < 3; ++member) {
        ids.push_back(next_++);
        run_.Add(ids.back(), Prompt(step, group),
                 {.sampling = {.temperature = temperature},
                  .max_new_tokens = static_cast<int32_t>(4 + 7 * member),
                  .seed = next_},
                 step * 2 + group + 1);
      }
    }
    run_.Finish();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto group = static_cast<uint32_t>(i / 3), member = static_cast<uint32_t>(i % 3);
      const std::vector<TokenId> prompt = Prompt(step, group);
      const TurnOutput& turn = run_.Turn(ids[i]);
      v1::Sample sample =
          OneTurn(*weights_, step * 2 + group, member, member, {prompt.begin(), prompt.end()},
                  {turn.ids.begin(), turn.ids.end()}, temperature, step + 1);
      v1::Turn& stored = *sample.mutable_trajectory()->mutable_turns(0);
      for (int t = 0; t < stored.ids_size(); ++t) {
        stored.set_logprobs(t, turn.logprobs[static_cast<size_t>(t)]);
      }
      *batch.add_samples() = sample;
      run_.Release(ids[i]);
    }
    return batch;
  }

  void Take(const std::shared_ptr<const PolicyWeights>& weights, uint64_t version) {
    const Status swapped = run_.engine().SwapWeights(weights, version, CacheOnSwap::kRebuild);
    ASSERT_TRUE(swapped.ok()) << swapped.ToString();
  }

 private:
  static std::vector<TokenId> Prompt(uint64_t step, uint32_t group) {
    std::vector<TokenId> prompt(21 + group * 14 + step % 5);
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = static_cast<TokenId>((i * i * 7 + step * 3 + group) % 37);
    }
    return prompt;
  }

  const std::shared_ptr<const PolicyWeights> weights_;
  EngineRun run_;
  SequenceId next_ = 1;
};

TrainerOptions ExactOptions(bool exact) {
  TrainerOptions options;
  options.objective = *ObjectivePreset("grpo");
  options.schedule.peak = 1e-3;
  options.exact = exact;
  options.microbatch_tokens = 120;
  return options;
}

class ExactRatios : public testing::TestWithParam<ModelFamily> {
 protected:
  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(UnevenConfig(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Families, ExactRatios,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kQwen2,
                                         ModelFamily::kQwen3, ModelFamily::kMistral,
                                         ModelFamily::kOlmo2, ModelFamily::kGemma3),
                         [](const auto& info) { return std::string(ModelFamilyName(info.param)); });

TEST_P(ExactRatios, AreOneToTheBitOverTwentySteps) {
  Loop loop(weights_);
  auto trainer = Trainer::New(weights_, ExactOptions(true));
  ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
  double moved = 0;
  for (uint64_t step = 0; step < 20; ++step) {
    (*trainer)->NotePublished(step + 1, step);
    const float temperature = step % 3 == 0 ? 0.7f : 1.0f;
    const auto report = (*trainer)->Train(loop.Draw(step, temperature));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    // The mean and the largest of |log ratio|: each ratio is 1.
    ASSERT_EQ(report->metrics.at("mismatch_fresh"), 0) << "step " << step;
    ASSERT_EQ(report->metrics.at("mismatch"), 0) << "step " << step;
    ASSERT_EQ(report->metrics.at("ratio"), 1) << "step " << step;
    moved += report->metrics.at("grad_norm");
    const auto next = (*trainer)->Snapshot();
    ASSERT_TRUE(next.ok());
    loop.Take(*next, step + 2);
  }
  EXPECT_GT(moved, 0.1);
}

TEST_P(ExactRatios, LeaveOneWhereASingleWeightIsNextToItself) {
  Loop loop(weights_);
  NamedTensors tensors = weights_->tensors();
  at::Tensor& weight = tensors.at("model.layers.0.mlp.down_proj.weight");
  weight = weight.clone();
  float& number = weight.data_ptr<float>()[7];
  number = std::nextafter(number, 2.0f);
  const auto next = PolicyWeights::FromTensors(weights_->config(), tensors);
  ASSERT_TRUE(next.ok());
  loop.Take(*next, 2);
  auto trainer = Trainer::New(weights_, ExactOptions(true));
  ASSERT_TRUE(trainer.ok());
  (*trainer)->NotePublished(1, 0);
  const auto report = (*trainer)->Train(loop.Draw(0, 1.0f));
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_GT(report->metrics.at("mismatch_fresh"), 0);
  EXPECT_LT(report->metrics.at("mismatch_fresh"), 1e-5);
}

// The gradient is that of the pass which is not exact, as far as rounding goes.
TEST_P(ExactRatios, ChangeTheGradientByRoundingAlone) {
  v1::Batch batch = RandomBatch(*weights_, 3, 2, 3, 0.8);
  double norms[2];
  for (const bool exact : {false, true}) {
    auto trainer = Trainer::New(weights_, ExactOptions(exact));
    ASSERT_TRUE(trainer.ok());
    const auto report = (*trainer)->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    norms[exact ? 1 : 0] = report->metrics.at("grad_norm");
  }
  EXPECT_NEAR(norms[1], norms[0], 1e-4 * norms[0]);
}

}  // namespace
}  // namespace tidemill
