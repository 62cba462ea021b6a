#include "engine/cpu/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/random.h"
#include "core/token_support.h"

namespace tidemill {
namespace {

// The distribution after truncation, by its definition: everything in order, in double.
std::map<int32_t, double> PlainTruncation(const std::vector<float>& logits,
                                          const SamplingParams& how) {
  std::vector<std::pair<double, int32_t>> all;
  const double top = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) {
    all.emplace_back(std::exp((double{logits[i]} - top) / how.temperature),
                     static_cast<int32_t>(i));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (how.top_k > 0 && static_cast<size_t>(how.top_k) < all.size()) {
    all.resize(static_cast<size_t>(how.top_k));
  }
  double total = 0, kept = 0;
  for (const auto& [weight, token] : all) total += weight;
  std::map<int32_t, double> left;
  for (const auto& [weight, token] : all) {
    if (!left.empty() && how.top_p < 1 && kept >= how.top_p * total) break;
    if (!left.empty() && weight < how.min_p * all[0].first) break;
    left[token] = weight;
    kept += weight;
  }
  for (auto& [token, weight] : left) weight = std::log(weight / kept);
  return left;
}

TEST(Sampler, ATruncatedDrawIsFromTheDefinitionsDistribution) {
  Random random(5);
  SamplerScratch scratch;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random.Below(400));
    for (float& logit : logits) {
      // Some are equal, so that the order of equals matters.
      logit = static_cast<float>(random.Below(30)) / 3 +
              (round % 2 == 0 ? 0.01f : 0) * static_cast<float>(random.Below(100));
    }
    SamplingParams how{.temperature = 0.3f + 0.1f * static_cast<float>(random.Below(15))};
    if (random.Below(2) == 0) how.top_p = 0.05f + 0.09f * static_cast<float>(random.Below(11));
    if (random.Below(2) == 0) how.top_k = 1 + static_cast<int32_t>(random.Below(450));
    if (random.Below(2) == 0) how.min_p = 0.03f * static_cast<float>(random.Below(20));
    if (!how.Truncates()) continue;
    const std::map<int32_t, double> plain = PlainTruncation(logits, how);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Drawn drawn;
      DrawToken(BestCpuKernels(), logits, how, seed, 3, scratch, drawn);
      ASSERT_TRUE(plain.contains(drawn.id)) << "round " << round;
      ASSERT_NEAR(drawn.logprob, plain.at(drawn.id), 1e-4) << "round " << round;
      std::vector<int32_t> kept;
      for (const auto& [token, logprob] : plain) kept.push_back(token);
      ASSERT_EQ(drawn.support, EncodeSupport(kept)) << "round " << round;
    }
  }
}

TEST(Sampler, TheMostLikelyTokensAreReportedWithTheModelsLogprobs) {
  Random random(6);
  SamplerScratch scratch;
  std::vector<float> logits(333);
  for (float& logit : logits) logit = static_cast<float>(random.Below(40)) / 4;
  const std::map<int32_t, double> model = PlainTruncation(logits, {});
  Drawn drawn;
  DrawToken(BestCpuKernels(), logits, {.temperature = 0.5f, .top_logprobs = 7}, 1, 2, scratch,
            drawn);
  EXPECT_NEAR(drawn.model_logprob, model.at(drawn.id), 1e-5);
  EXPECT_TRUE(drawn.support.empty()) << "nothing was left out";
  std::vector<std::pair<double, int32_t>> order;
  for (const auto& [token, logprob] : model) order.emplace_back(-logprob, token);
  std::sort(order.begin(), order.end());
  ASSERT_EQ(drawn.top.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(drawn.top[i].id, order[i].second);
    EXPECT_NEAR(drawn.top[i].logprob, -order[i].first, 1e-5);
  }
}

}  // namespace
}  // namespace tidemill
