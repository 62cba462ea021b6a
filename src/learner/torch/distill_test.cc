// Distillation: the advantages of tokens and the loss they give, against the formulas written out
// in float64.
#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <string>

#include "core/random.h"
#include "learner/step_batch.h"
#include "learner/torch/objective.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// Two groups of two, each of one or two turns; some tokens without a score.
v1::Batch TaughtBatch(uint64_t seed) {
  Random random(seed);
  const auto logprob = [&] { return -static_cast<float>(random.Uniform() * 9); };
  v1::Batch batch;
  for (uint32_t s = 0; s < 4; ++s) {
    std::vector<TurnSpec> turns(1 + s % 2);
    for (TurnSpec& turn : turns) {
      const auto count = 1 + static_cast<uint32_t>(random.Below(5));
      for (uint32_t i = 0; i < count; ++i) {
        turn.ids.push_back(static_cast<uint32_t>(random.Below(30)));
        turn.logprobs.push_back(logprob());
      }
      turn.versions = {{1, count}};
      turn.observation = {3, 4};
    }
    v1::Sample& sample = *batch.add_samples();
    sample = MakeSample(1 + s / 2, s % 2, random.Uniform(), {1, 2, 3}, turns);
    for (size_t t = 0; t < turns.size(); ++t) {
      v1::TurnScores& scores = *sample.add_teacher();
      scores.set_turn(static_cast<uint32_t>(t));
      for (size_t i = 0; i < turns[t].ids.size(); ++i) scores.add_logprobs(logprob());
      if (random.Chance(0.5)) scores.add_unknown(0), scores.set_logprobs(0, 0);
    }
  }
  return batch;
}

struct Token {
  double behaviour, teacher, reward_advantage;
  bool known;
};

// Every token of the model in the order of the batch, by hand.
std::vector<Token> TokensOf(const v1::Batch& batch) {
  std::vector<Token> tokens;
  for (int s = 0; s < batch.samples_size(); ++s) {
    const v1::Sample& sample = batch.samples(s);
    const double own = sample.verdict().reward();
    const double other = batch.samples(s ^ 1).verdict().reward();
    const double mean = (own + other) / 2, deviation = std::abs(own - other) / std::sqrt(2.0);
    for (int t = 0; t < sample.trajectory().turns_size(); ++t) {
      const v1::Turn& turn = sample.trajectory().turns(t);
      for (int i = 0; i < turn.ids_size(); ++i) {
        const v1::TurnScores& scores = sample.teacher(t);
        const bool unknown = scores.unknown_size() > 0 && i == 0;
        tokens.push_back(
            {turn.logprobs(i), scores.logprobs(i), (own - mean) / (deviation + 1e-6), !unknown});
      }
    }
  }
  return tokens;
}

double Clip(double x, double bound) {
  return std::max(-bound, std::min(bound, x));
}

// What PrepareStep and PackMicrobatches make of the batch: of the tokens that count, in order.
std::vector<double> PackedAdvantages(const v1::Batch& batch, const ObjectiveConfig& objective,
                                     std::map<std::string, double>* metrics = nullptr) {
  const auto step = PrepareStep(batch, objective.advantage, {}, {}, objective.distill);
  EXPECT_TRUE(step.ok()) << step.status().ToString();
  std::vector<double> advantages;
  for (int32_t index : step->Trainable()) {
    const std::vector<int32_t> one = {index};
    for (const Microbatch& micro :
         PackMicrobatches(step->sequences, step->advantages, one, 1 << 20)) {
      for (size_t i = 0; i < micro.ids.size(); ++i) {
        if (micro.mask[i] != 0) advantages.push_back(micro.advantages[i]);
      }
    }
  }
  if (metrics != nullptr) *metrics = step->metrics;
  return advantages;
}

TEST(Distillation, AdvantagesAreTheClippedGapOfTheLogprobabilities) {
  const ObjectiveConfig objective = ObjectivePreset("distill").value();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const v1::Batch batch = TaughtBatch(seed);
    std::map<std::string, double> metrics;
    const std::vector<double> made = PackedAdvantages(batch, objective, &metrics);
    std::vector<double> right;
    double unknown = 0, gaps = 0;
    for (const Token& token : TokensOf(batch)) {
      if (!token.known) {
        ++unknown;
        continue;
      }
      right.push_back(Clip(token.teacher - token.behaviour, 5));
      gaps += token.teacher - token.behaviour;
    }
    ASSERT_EQ(made.size(), right.size()) << seed;
    for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(made[i], right[i], 1e-12) << seed;
    EXPECT_EQ(metrics["untaught_tokens"], unknown);
    EXPECT_NEAR(metrics["teacher_kl"], -gaps / static_cast<double>(right.size()), 1e-9);
  }
}

TEST(Distillation, AMixAddsTheTeachersPartToTheRewards) {
  const auto objective =
      ParseObjective("grpo", {"distill_coefficient=0.3", "distill_clip=2"}).value();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const v1::Batch batch = TaughtBatch(seed);
    const std::vector<double> made = PackedAdvantages(batch, objective);
    const std::vector<Token> tokens = TokensOf(batch);
    ASSERT_EQ(made.size(), tokens.size());  // with rewards every token counts
    for (size_t i = 0; i < tokens.size(); ++i) {
      const double taught =
          tokens[i].known ? 0.3 * Clip(tokens[i].teacher - tokens[i].behaviour, 2) : 0;
      EXPECT_NEAR(made[i], tokens[i].reward_advantage + taught, 1e-9) << seed;
    }
  }
}

// loss = -(1/N) sum w min(r A, clip(r) A), w = min(exp(p - b), 2), r = exp(c - p), p = c at the
// first update: its gradient in c is -(1/N) w A.
TEST(Distillation, LossAndGradientAreThoseOfTheFormula) {
  const ObjectiveConfig objective = ObjectivePreset("distill").value();
  const v1::Batch batch = TaughtBatch(3);
  const std::vector<double> advantages = PackedAdvantages(batch, objective);
  std::vector<double> behaviour, current;
  Random random(11);
  for (const Token& token : TokensOf(batch)) {
    if (!token.known) continue;
    behaviour.push_back(token.behaviour);
    current.push_back(token.behaviour + random.Uniform() * 2 - 1);
  }
  ASSERT_EQ(behaviour.size(), advantages.size());
  const auto tensor = [](const std::vector<double>& values) {
    return torch::tensor(values, torch::kFloat64);
  };
  ObjectiveInput input;
  input.current = tensor(current).set_requires_grad(true);
  input.proximal = tensor(current);
  input.behaviour = tensor(behaviour);
  input.advantages = tensor(advantages);
  input.sequence = torch::zeros({static_cast<int64_t>(current.size())}, torch::kInt64);
  input.sequences = 1;
  const double count = static_cast<double>(current.size());
  const ObjectiveLoss made = ComputeObjective(objective, input, {count, 1});
  made.loss.backward();
  double loss = 0;
  for (size_t i = 0; i < current.size(); ++i) {
    const double weight = std::min(std::exp(current[i] - behaviour[i]), 2.0);
    loss -= weight * advantages[i] / count;
    EXPECT_NEAR(input.current.grad()[static_cast<int64_t>(i)].item<double>(),
                -weight * advantages[i] / count, 1e-12);
  }
  EXPECT_NEAR(made.loss.item<double>(), loss, 1e-12);
}

// Sampled from itself and scored by another model, a policy becomes more like that model.
TEST(Distillation, StepsBringThePolicyCloserToItsTeacher) {
  const auto weights = TinyWeights(TinyConfig(), 1), teacher = TinyWeights(TinyConfig(), 2);
  TrainerOptions options;
  options.objective = ObjectivePreset("distill").value();
  options.schedule.peak = 3e-3;
  auto trainer = Trainer::New(weights, options).value();
  Random random(5);
  std::vector<double> divergence;
  for (uint64_t step = 0; step < 90; ++step) {
    const auto now = trainer->Snapshot().value();
    v1::Batch batch;
    batch.set_step(step), batch.set_learner_version(1);
    for (uint32_t m = 0; m < 8; ++m) {
      std::vector<int32_t> ids = {1, 2, 3};
      while (ids.size() < 11) {  // drawn from the policy
        const at::NoGradGuard no_grad;
        const at::Tensor p =
            at::softmax(Logits(now->view(), ForwardHidden(now->config(), now->view(), Pack({ids})))
                            .select(0, static_cast<int64_t>(ids.size()) - 1),
                        -1)
                .contiguous();
        double left = random.Uniform();
        int32_t id = 0;
        while (id < 36 && (left -= p.data_ptr<float>()[id]) > 0) ++id;
        ids.push_back(id);
      }
      const std::vector<uint32_t> answer(ids.begin() + 3, ids.end());
      v1::Sample& sample = *batch.add_samples();
      sample = OneTurn(*now, m / 2, m % 2, 0, {1, 2, 3}, answer);
      v1::TurnScores& scores = *sample.add_teacher();
      for (float logprob : Logprobs(*teacher, ids, 3, 1.0)) scores.add_logprobs(logprob);
    }
    const auto report = trainer->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    divergence.push_back(report->metrics.at("teacher_kl"));
  }
  double first = 0, last = 0;
  for (size_t i = 0; i < 10; ++i) first += divergence[i] / 10, last += divergence[89 - i] / 10;
  EXPECT_LT(last, 0.5 * first);
}

TEST(Distillation, WhatDoesNotFitIsRefusedByName) {
  v1::Batch batch = TaughtBatch(1);
  batch.mutable_samples(0)->mutable_teacher(0)->add_logprobs(-1);
  const auto step = PrepareStep(batch, AdvantageKind::kGroupNormalized, {}, {}, {0, 1, 5});
  EXPECT_THAT(step.status().message(), HasSubstr("scores of the teacher"));
  const auto vtrace = ParseObjective("vtrace", {"distill_coefficient=1"});
  EXPECT_THAT(ValidateObjective(*vtrace).message(), HasSubstr("V-trace"));
  const auto nothing = ParseObjective("distill", {"distill_coefficient=0"});
  EXPECT_THAT(ValidateObjective(*nothing).message(), HasSubstr("both 0"));
}

}  // namespace
}  // namespace tidemill
