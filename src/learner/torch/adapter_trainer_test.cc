#include "learner/torch/adapter_trainer.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

std::shared_ptr<const PolicyWeights> WithNewAdapter(
    const std::shared_ptr<const PolicyWeights>& base, uint64_t seed) {
  LoraConfig config;
  config.rank = 4;
  config.alpha = 32;
  config.target_modules = {"q_proj", "v_proj", "down_proj"};
  return *PolicyWeights::WithAdapter(base, *NewAdapter(config, base->config(), seed));
}

TokenRow RandomRow(Random& random, size_t length, int64_t per_place = 1) {
  TokenRow row;
  row.per_place = per_place;
  for (size_t i = 0; i < length; ++i) row.ids.push_back(static_cast<int32_t>(random.Below(37)));
  for (size_t i = 0; i < length * static_cast<size_t>(per_place); ++i) {
    row.targets.push_back(static_cast<int64_t>(random.Below(37)));
    row.weights.push_back(static_cast<float>(2 * random.Uniform() - 1));
  }
  return row;
}

std::vector<TokenRow> RandomRows(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<TokenRow> rows;
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(RandomRow(random, static_cast<size_t>(random.Between(2, 17))));
  }
  return rows;
}

std::unique_ptr<AdapterTrainer> NewTrainerOn(const std::shared_ptr<const PolicyWeights>& base,
                                             uint64_t seed = 7, int64_t microbatch = 8192) {
  auto made = AdapterTrainer::New(WithNewAdapter(base, seed), {.microbatch_tokens = microbatch});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

NamedTensors AdapterOf(const AdapterTrainer& trainer) {
  return (*trainer.Snapshot())->adapter()->tensors;
}

void ExpectBitEqual(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

double LargestDifference(const NamedTensors& a, const NamedTensors& b) {
  double most = 0;
  for (const auto& [name, tensor] : a) {
    most = std::max(most, (tensor - b.at(name)).abs().max().item<double>());
  }
  return most;
}

TEST(AdapterTrainer, LogprobsAreThoseOfTheModelForTargetsThatAreNotTheNextToken) {
  const auto base = TinyWeights(TinyConfig());
  const auto trainer = NewTrainerOn(base);
  Random random(1);
  const std::vector<TokenRow> rows = {RandomRow(random, 9), RandomRow(random, 5, 3)};
  const auto result = trainer->Pass(rows, {}, false);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const at::NoGradGuard no_grad;
  double loss = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const TokenRow& row = rows[r];
    const at::Tensor logprobs = at::log_softmax(
        Logits(base->view(), ForwardHidden(base->config(), base->view(), Pack({row.ids})))
            .to(at::kDouble),
        -1);
    ASSERT_EQ(result->logprobs[r].size(), row.targets.size());
    for (size_t i = 0; i < row.targets.size(); ++i) {
      const auto place = static_cast<int64_t>(i) / row.per_place;
      const double wanted = logprobs[place][row.targets[i]].item<double>();
      EXPECT_NEAR(result->logprobs[r][i], wanted, 1e-5 * std::abs(wanted) + 1e-6);
      loss -= row.weights[i] * wanted;
    }
  }
  EXPECT_NEAR(result->loss, loss, 1e-4);
}

TEST(AdapterTrainer, GradientsOfCallsAddUpUntilTheStep) {
  const auto base = TinyWeights(TinyConfig());
  const auto whole = NewTrainerOn(base), parts = NewTrainerOn(base);
  const std::vector<TokenRow> rows = RandomRows(2, 6);
  ASSERT_TRUE(whole->Pass(rows, {}, true).ok());
  const std::span<const TokenRow> all(rows);
  ASSERT_TRUE(parts->Pass(all.subspan(0, 2), {}, true).ok());
  ASSERT_TRUE(parts->Pass(all.subspan(2, 4), {}, true).ok());
  ASSERT_TRUE(parts->Pass(all, {}, false).ok());  // forward alone adds nothing
  const auto norm = whole->Step({}), norm_of_parts = parts->Step({});
  ASSERT_TRUE(norm.ok() && norm_of_parts.ok());
  EXPECT_GT(*norm, 0);
  EXPECT_NEAR(*norm, *norm_of_parts, 1e-5 * *norm);
  // The step cleared them.
  EXPECT_EQ(*whole->Step({}), 0);
}

TEST(AdapterTrainer, MicrobatchesChangeNothingButRounding) {
  const auto base = TinyWeights(TinyConfig());
  const auto one = NewTrainerOn(base), many = NewTrainerOn(base, 7, 16);
  const std::vector<TokenRow> rows = RandomRows(3, 8);
  const auto a = one->Pass(rows, {}, true), b = many->Pass(rows, {}, true);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NEAR(a->loss, b->loss, 1e-5 * std::abs(a->loss) + 1e-5);
  EXPECT_NEAR(*one->Step({}), *many->Step({}), 1e-4);
}

TEST(AdapterTrainer, AModelLearnsAsIfItWereAlone) {
  const auto base = TinyWeights(TinyConfig());
  const auto alone = NewTrainerOn(base, 11), beside = NewTrainerOn(base, 11),
             other = NewTrainerOn(base, 12);
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<TokenRow> rows = RandomRows(20 + step, 3), others = RandomRows(40 + step, 4);
    ASSERT_TRUE(alone->Pass(rows, {}, true).ok());
    ASSERT_TRUE(alone->Step({.learning_rate = 1e-2}).ok());
    ASSERT_TRUE(other->Pass(others, {}, true).ok());
    ASSERT_TRUE(beside->Pass(rows, {}, true).ok());
    ASSERT_TRUE(other->Step({.learning_rate = 3e-2, .beta2 = 0.99}).ok());
    ASSERT_TRUE(beside->Step({.learning_rate = 1e-2}).ok());
  }
  ExpectBitEqual(AdapterOf(*alone), AdapterOf(*beside));
  EXPECT_GT(LargestDifference(AdapterOf(*alone), AdapterOf(*other)), 1e-3);
}

TEST(AdapterTrainer, GoesOnFromWhatWasSavedToTheLastBit) {
  const auto base = TinyWeights(TinyConfig());
  const TemporaryDirectory folder;
  const auto trainer = NewTrainerOn(base);
  const AdamRates rates{.learning_rate = 1e-2, .weight_decay = 0.1, .clip_norm = 0.5};
  ASSERT_TRUE(trainer->Pass(RandomRows(5, 4), {}, true).ok());
  ASSERT_TRUE(trainer->Step(rates).ok());
  ASSERT_TRUE(trainer->Save(folder / "saved", true).ok());
  auto loaded = AdapterTrainer::Load(folder / "saved", base, true, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto fresh = AdapterTrainer::Load(folder / "saved", base, false, {});
  ASSERT_TRUE(fresh.ok()) << fresh.status().message();
  EXPECT_EQ((*loaded)->steps(), 1u);
  EXPECT_EQ((*fresh)->steps(), 0u);
  for (AdapterTrainer* one : {trainer.get(), loaded->get(), fresh->get()}) {
    ASSERT_TRUE(one->Pass(RandomRows(6, 4), {}, true).ok());
    ASSERT_TRUE(one->Step(rates).ok());
  }
  ExpectBitEqual(AdapterOf(*trainer), AdapterOf(**loaded));
  EXPECT_GT(LargestDifference(AdapterOf(*trainer), AdapterOf(**fresh)), 0);
}

TEST(AdapterTrainer, AStepIsAdamWByTheRatesItWasAskedWith) {
  const auto base = TinyWeights(TinyConfig());
  const auto trainer = NewTrainerOn(base);
  const NamedTensors before = AdapterOf(*trainer);
  ASSERT_TRUE(trainer->Pass(RandomRows(8, 3), {}, true).ok());
  ASSERT_TRUE(trainer->Step({.learning_rate = 1e-3, .eps = 1e-12}).ok());
  // The first step of Adam moves every number by the rate, whatever the size of its gradient; A has
  // no gradient while B is zero.
  for (const auto& [name, tensor] : AdapterOf(*trainer)) {
    const at::Tensor moved = (tensor - before.at(name)).abs();
    if (name.find("lora_B") == std::string::npos) continue;
    EXPECT_NEAR(moved.max().item<double>(), 1e-3, 1e-8) << name;
  }
}

TEST(AdapterTrainer, RefusesWeightsWithoutAnAdapter) {
  EXPECT_EQ(AdapterTrainer::New(TinyWeights(TinyConfig()), {}).status().code(), Code::kInvalid);
}

TEST(TokenRows, WhatDoesNotFitIsNamed) {
  Random random(1);
  const TokenRow good = RandomRow(random, 4);
  const auto why = [](const TokenRow& row, TokenLossKind kind) {
    return CheckTokenRow(row, kind, 37, 128).message();
  };
  EXPECT_EQ(why(good, TokenLossKind::kCrossEntropy), "");
  TokenRow row = good;
  row.targets.pop_back();
  EXPECT_NE(why(row, TokenLossKind::kCrossEntropy).find("target_tokens"), std::string::npos);
  row = good;
  row.targets[1] = 37;
  EXPECT_NE(why(row, TokenLossKind::kCrossEntropy).find("token 37"), std::string::npos);
  row = good;
  row.weights[2] = NAN;
  EXPECT_NE(why(row, TokenLossKind::kCrossEntropy).find("place 2"), std::string::npos);
  EXPECT_NE(why(good, TokenLossKind::kPpo).find("logprobs"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
