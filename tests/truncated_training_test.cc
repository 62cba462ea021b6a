// Truncated sampling is trained on as it was drawn: the engine records what each token was drawn
// from, the learner normalises over that. On the CPU, and on a GPU where the build has that path.
#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/token_support.h"
#include "model/torch/moved_weights.h"
#include "testing/engine_check.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

constexpr uint64_t kGroups = 4;
constexpr uint32_t kMembers = 4;

struct Draws {
  v1::Batch batch;
  size_t tokens = 0;
  size_t left_out = 0;  // supports that are not the whole vocabulary
};

v1::Sample SampleOf(const EngineRun& run, SequenceId id, uint64_t group, uint32_t member,
                    const TurnParams& turn) {
  const TurnOutput& out = run.Turn(id);
  const std::vector<TokenId>& all = run.Tokens(id);
  const std::vector<uint32_t> prompt(all.begin(), all.end() - static_cast<long>(out.ids.size()));
  const std::vector<uint32_t> ids(out.ids.begin(), out.ids.end());
  const auto count = static_cast<uint32_t>(ids.size());
  double fives = 0;
  for (const uint32_t token : ids) fives += token == 5 ? 1.0 / count : 0;
  v1::Sample sample = MakeSample(group, member, fives + 0.1 * member, prompt,
                                 {{ids, out.logprobs, {{1, count}}, {}, ""}});
  sample.mutable_trajectory()->mutable_sampling()->set_temperature(turn.sampling.temperature);
  FillSupports(out.supports, 0, *sample.mutable_trajectory()->mutable_turns(0)->mutable_supports());
  return sample;
}

// A batch that an engine with `weights` drew.
Draws DrawBatch(const std::shared_ptr<const PolicyWeights>& weights, const SamplingParams& how) {
  EngineRun run(weights, {.max_context = 128, .max_running = 16});
  TurnParams turn{.sampling = how, .max_new_tokens = 12};
  for (uint64_t group = 0; group < kGroups; ++group) {
    const std::vector<TokenId> prompt = {3, 7, static_cast<TokenId>(group), 11};
    for (uint32_t member = 0; member < kMembers; ++member) {
      turn.seed = 1 + group * kMembers + member;
      run.Add(turn.seed, prompt, turn);
    }
  }
  run.Finish();
  Draws draws;
  draws.batch.set_learner_version(1);
  const int64_t vocabulary = weights->config().vocab_size;
  for (uint64_t group = 0; group < kGroups; ++group) {
    for (uint32_t member = 0; member < kMembers; ++member) {
      const SequenceId id = 1 + group * kMembers + member;
      v1::Sample sample = SampleOf(run, id, group, member, turn);
      const v1::Turn& drawn = sample.trajectory().turns(0);
      EXPECT_TRUE(CheckSupports(drawn.supports(),
                                {drawn.ids().data(), static_cast<size_t>(drawn.ids_size())},
                                vocabulary)
                      .ok());
      for (const uint32_t set : drawn.supports().set_of()) {
        int64_t size = 0;
        for (const TokenRun& part :
             *DecodeSupport(drawn.supports().sets(static_cast<int>(set)), vocabulary)) {
          size += part.count;
        }
        draws.left_out += size < vocabulary ? 1 : 0;
        ++draws.tokens;
      }
      *draws.batch.add_samples() = std::move(sample);
    }
  }
  return draws;
}

std::map<std::string, double> Train(const std::shared_ptr<const PolicyWeights>& weights,
                                    const v1::Batch& batch, bool bfloat16, bool fused) {
  TrainerOptions options;
  options.objective = *ObjectivePreset("tis");
  options.schedule.peak = 1e-3;
  options.fused = fused;
  options.bfloat16 = bfloat16;
  auto trainer = Trainer::New(weights, options, weights);
  EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
  const auto report = (*trainer)->Train(batch);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report->metrics;
}

v1::Batch WithoutSupports(v1::Batch batch) {
  for (v1::Sample& sample : *batch.mutable_samples()) {
    sample.mutable_trajectory()->mutable_turns(0)->clear_supports();
  }
  return batch;
}

const SamplingParams kWays[] = {{.temperature = 0.8f, .top_p = 0.9f},
                                {.temperature = 1.3f, .top_k = 7},
                                {.temperature = 1.0f, .min_p = 0.05f},
                                {.temperature = 1.0f, .top_p = 0.9f, .top_k = 9, .min_p = 0.02f}};

TEST(TruncatedTraining, TheRatioOfOnPolicyTokensIsOneWithTheSupportsAndNotWithoutThem) {
  const auto weights = TinyWeights(TinyConfig());
  for (const SamplingParams& how : kWays) {
    const Draws draws = DrawBatch(weights, how);
    ASSERT_EQ(draws.tokens, kGroups * kMembers * 12);
    EXPECT_GT(draws.left_out, draws.tokens / 2);
    const v1::Batch without = WithoutSupports(draws.batch);
    for (const bool fused : {true, false}) {
      const auto exact = Train(weights, draws.batch, false, fused);
      EXPECT_LT(exact.at("mismatch_p99"), 1e-4);
      EXPECT_NEAR(exact.at("correction"), 1.0, 1e-4);
      EXPECT_NEAR(exact.at("ess"), 1.0, 1e-4);
      const auto wrong = Train(weights, without, false, fused);
      EXPECT_GT(wrong.at("mismatch_p99"), 0.02);
      EXPECT_LT(wrong.at("correction"), 0.99);
      EXPECT_LT(exact.at("entropy"), wrong.at("entropy"));
    }
  }
}

TEST(TruncatedTraining, OnAGpuTheSupportsAreRecordedAndNormalisedOverAsWell) {
  SKIP_WITHOUT_GPU();
  const auto plain = TinyWeights(TinyConfig());
  auto engine = MovedWeights(plain, kTestDevice, at::kBFloat16);
  auto learner = MovedWeights(plain, kTestDevice, at::kFloat);
  ASSERT_TRUE(engine.ok() && learner.ok());
  for (const SamplingParams& how : kWays) {
    const Draws draws = DrawBatch(*engine, how);
    EXPECT_GT(draws.left_out, draws.tokens / 2);
    const v1::Batch without = WithoutSupports(draws.batch);
    const auto exact = Train(*learner, draws.batch, true, false);
    const auto wrong = Train(*learner, without, true, false);
    // bfloat16 products differ between the engine and the learner; the supports do not.
    EXPECT_NEAR(exact.at("correction"), 1.0, 0.01);
    EXPECT_LT(wrong.at("correction"), exact.at("correction") - 0.02);
    EXPECT_LT(exact.at("mismatch"), wrong.at("mismatch") / 2);
  }
}

}  // namespace
}  // namespace tidemill
