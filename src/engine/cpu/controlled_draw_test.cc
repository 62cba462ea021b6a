#include "engine/cpu/controlled_draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/random.h"
#include "core/token_support.h"

namespace tidemill {
namespace {

std::vector<float> SomeLogits(Random& random, size_t count) {
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(random.Below(400)) / 40 - 5;
  return logits;
}

// exp(logit) over the sum, of the tokens that `keep` has.
double PlainLogprob(const std::vector<float>& logits, const std::vector<bool>& keep, TokenId id,
                    double temperature) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (keep[i]) sum += std::exp(logits[i] / temperature);
  }
  return logits[static_cast<size_t>(id)] / temperature - std::log(sum);
}

TEST(ControlledDraw, AMaskLeavesItsTokensAndTheirDistribution) {
  Random random(21);
  SamplerScratch scratch;
  for (const size_t size : {70, 3000}) {
    for (int round = 0; round < 40; ++round) {
      const std::vector<float> logits = SomeLogits(random, size);
      std::vector<bool> keep(size);
      std::vector<uint64_t> bits((size + 63) / 64);
      const size_t share = 1 + random.Below(6);
      for (size_t i = 0; i < size; ++i) {
        keep[i] = random.Below(share) == 0;
        if (keep[i]) bits[i / 64] |= uint64_t{1} << (i % 64);
      }
      if (std::find(keep.begin(), keep.end(), true) == keep.end()) continue;
      DrawControls controls;
      controls.mask = std::make_shared<const TokenMask>(bits);
      controls.record_support = true;
      const SamplingParams how{.temperature = 0.7f, .top_logprobs = 0};
      for (uint64_t seed = 0; seed < 10; ++seed) {
        Drawn drawn;
        DrawControlled(BestCpuKernels(), logits, how, &controls, seed, 5, scratch, drawn);
        ASSERT_TRUE(keep[static_cast<size_t>(drawn.id)]);
        EXPECT_NEAR(drawn.logprob, PlainLogprob(logits, keep, drawn.id, 0.7f), 1e-3);
        EXPECT_NEAR(drawn.model_logprob,
                    PlainLogprob(logits, std::vector<bool>(size, true), drawn.id, 1), 1e-3);
        const auto runs = DecodeSupport(drawn.support, static_cast<int64_t>(size));
        ASSERT_TRUE(runs.ok());
        for (size_t i = 0; i < size; ++i) {
          ASSERT_EQ(InRuns(*runs, static_cast<int32_t>(i)), keep[i]);
        }
      }
    }
  }
}

TEST(ControlledDraw, TruncationIsWithinTheMask) {
  Random random(22);
  SamplerScratch scratch;
  const std::vector<float> logits = SomeLogits(random, 900);
  std::vector<TokenId> ids;
  for (TokenId id = 3; id < 900; id += 7) ids.push_back(id);
  std::vector<TokenId> best = ids;
  std::stable_sort(best.begin(), best.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  best.resize(4);
  std::sort(best.begin(), best.end());
  DrawControls controls;
  controls.mask = std::make_shared<const TokenMask>(ids);
  controls.record_support = true;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Drawn drawn;
    DrawControlled(BestCpuKernels(), logits, {.top_k = 4}, &controls, seed, 1, scratch, drawn);
    EXPECT_TRUE(std::binary_search(best.begin(), best.end(), drawn.id));
    EXPECT_EQ(drawn.support, EncodeSupport(best));
    EXPECT_NEAR(drawn.full_logprob, PlainLogprob(logits, std::vector<bool>(900, true), drawn.id, 1),
                1e-3);
  }
  Drawn greedy;
  DrawControlled(BestCpuKernels(), logits, {.temperature = 0}, &controls, 1, 1, scratch, greedy);
  EXPECT_TRUE(controls.mask->Allows(greedy.id));
  EXPECT_EQ(greedy.support, "") << "nothing is drawn at temperature 0";
}

TEST(ControlledDraw, AMaskFarBelowTheOthersIsStillDrawnFrom) {
  SamplerScratch scratch;
  std::vector<float> logits(500, 300.0f);
  logits[17] = -400;
  logits[18] = -401;
  DrawControls controls;
  controls.mask = std::make_shared<const TokenMask>(std::vector<TokenId>{18, 17});
  std::map<TokenId, int> count;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Drawn drawn;
    DrawControlled(BestCpuKernels(), logits, {}, &controls, seed, 1, scratch, drawn);
    ++count[drawn.id];
  }
  EXPECT_EQ(count.size(), 2u);
  EXPECT_GT(count[17], count[18]);
}

TEST(ControlledDraw, PenaltiesAreThoseOfTheirDefinition) {
  SamplerScratch scratch;
  const std::vector<float> logits{2, 1.5f, -1, 0.5f};
  DrawControls controls;
  controls.presence_penalty = 0.5f;
  controls.frequency_penalty = 0.25f;
  controls.repetition_penalty = 2;
  controls.used = {{.id = 0, .drawn = 2}, {.id = 2, .drawn = 0}};
  controls.logit_bias = {{3, 4.0f}};
  const std::vector<float> expected{2.0f / 2 - 0.5f - 0.5f, 1.5f, -2, 4.5f};
  const SamplingParams how{.temperature = 1, .top_logprobs = 1};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Drawn drawn;
    DrawControlled(BestCpuKernels(), logits, how, &controls, seed, 2, scratch, drawn);
    EXPECT_NEAR(drawn.logprob, PlainLogprob(expected, {true, true, true, true}, drawn.id, 1), 1e-5);
    EXPECT_NEAR(drawn.model_logprob, PlainLogprob(logits, {true, true, true, true}, drawn.id, 1),
                1e-5);
    EXPECT_EQ(drawn.top[0].id, 0) << "the model's own";
  }
}

TEST(ControlledDraw, WhatMayNotComeYetComesOnlyWhereNothingElseMay) {
  SamplerScratch scratch;
  const std::vector<float> logits{9, 1, 1};
  DrawControls controls;
  controls.not_yet = {0};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Drawn drawn;
    DrawControlled(BestCpuKernels(), logits, {}, &controls, seed, 2, scratch, drawn);
    EXPECT_NE(drawn.id, 0);
  }
  controls.mask = std::make_shared<const TokenMask>(std::vector<TokenId>{0});
  Drawn drawn;
  DrawControlled(BestCpuKernels(), logits, {}, &controls, 1, 2, scratch, drawn);
  EXPECT_EQ(drawn.id, 0);
}

}  // namespace
}  // namespace tidemill
