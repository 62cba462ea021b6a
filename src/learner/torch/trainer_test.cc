#include "learner/torch/trainer.h"

#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/torch/lora.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TrainerOptions Options(const std::string& preset) {
  TrainerOptions options;
  options.objective = *ObjectivePreset(preset);
  options.schedule.peak = 1e-3;
  return options;
}

std::unique_ptr<Trainer> Make(const std::shared_ptr<const PolicyWeights>& weights,
                              const TrainerOptions& options) {
  auto trainer = Trainer::New(weights, options, weights);
  EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
  return std::move(*trainer);
}

double LargestDifference(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  }
  return largest;
}

bool Same(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, tensor] : a) {
    if (!at::equal(tensor, b.at(name))) return false;
  }
  return true;
}

// One that likes every other token better than the policy does.
void AddTeacher(v1::Batch& batch) {
  for (v1::Sample& sample : *batch.mutable_samples()) {
    for (int turn = 0; turn < sample.trajectory().turns_size(); ++turn) {
      v1::TurnScores& scores = *sample.add_teacher();
      scores.set_turn(static_cast<uint32_t>(turn));
      double sign = 1;
      for (const float logprob : sample.trajectory().turns(turn).logprobs()) {
        scores.add_logprobs(static_cast<float>(std::min(0.0, logprob + (sign = -sign))));
      }
    }
  }
}

TEST(Trainer, EveryPresetTrainsWithSeveralMinibatchesAndEpochs) {
  const auto weights = TinyWeights(TinyConfig());
  for (const std::string& preset : ObjectivePresetNames()) {
    SCOPED_TRACE(preset);
    TrainerOptions options = Options(preset);
    options.minibatches = 2;
    options.epochs = 2;
    auto trainer = Make(weights, options);
    v1::Batch batch = RandomBatch(*weights, 7);
    if (options.objective.NeedsTeacher()) AddTeacher(batch);
    const auto report = trainer->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->metrics.at("updates"), 4);
    EXPECT_TRUE(std::isfinite(report->metrics.at("loss")));
    EXPECT_GT(report->metrics.at("grad_norm"), 0);
    EXPECT_GT(report->metrics.at("entropy"), 0);
    EXPECT_GT(LargestDifference(WeightsOf(*trainer), weights->tensors()), 1e-4);
  }
}

TEST(Trainer, RaisesTheProbabilityOfWhatIsRewarded) {
  const auto weights = TinyWeights(TinyConfig());
  for (const std::string preset : {"grpo", "tis", "rloo", "vtrace"}) {
    TrainerOptions options = Options(preset);
    options.schedule.peak = 3e-3;
    auto trainer = Make(weights, options);
    const std::vector<int32_t> good = {1, 2, 3, 5, 5}, bad = {1, 2, 3, 9, 9};
    for (uint64_t step = 0; step < 20; ++step) {
      v1::Batch batch;
      batch.set_step(step);
      const auto now = *trainer->Snapshot();
      *batch.add_samples() = OneTurn(*now, 1, 0, 1.0, {1, 2, 3}, {5, 5});
      *batch.add_samples() = OneTurn(*now, 1, 1, 0.0, {1, 2, 3}, {9, 9});
      ASSERT_TRUE(trainer->Train(batch).ok());
    }
    const auto after = *trainer->Snapshot();
    const auto sum = [](const std::vector<float>& v) { return v[0] + v[1]; };
    EXPECT_GT(sum(Logprobs(*after, good, 3, 1)), sum(Logprobs(*weights, good, 3, 1)) + 0.5)
        << preset;
    EXPECT_LT(sum(Logprobs(*after, bad, 3, 1)), sum(Logprobs(*after, good, 3, 1))) << preset;
  }
}

// AdamW divides by the gradient's size, so that tiny differences of a gradient near 0 grow: plain
// gradients are compared through a step with a large eps.
TrainerOptions Linear(const std::string& preset) {
  TrainerOptions options = Options(preset);
  options.adamw.eps = 1.0;
  options.schedule.peak = 1.0;
  options.grad_clip = 0;
  return options;
}

TEST(Trainer, TheCutIntoMicrobatchesDoesNotChangeTheUpdate) {
  const auto weights = TinyWeights(TinyConfig());
  for (const std::string preset : {"grpo", "dapo", "gspo", "dr_grpo"}) {
    std::vector<NamedTensors> results;
    for (int64_t tokens : {int64_t{1}, int64_t{60}, int64_t{100000}}) {
      TrainerOptions options = Linear(preset);
      options.microbatch_tokens = tokens;
      auto trainer = Make(weights, options);
      ASSERT_TRUE(trainer->Train(RandomBatch(*weights, 11)).ok());
      results.push_back(WeightsOf(*trainer));
    }
    EXPECT_LT(LargestDifference(results[0], results[2]), 2e-5) << preset;
    EXPECT_LT(LargestDifference(results[1], results[2]), 2e-5) << preset;
    EXPECT_GT(LargestDifference(results[2], weights->tensors()), 1e-3) << preset;
  }
}

TEST(Trainer, TheHandWrittenPassTrainsAsAutogradDoes) {
  const auto weights = TinyWeights(TinyConfig(ModelFamily::kQwen3));
  std::vector<NamedTensors> results;
  for (bool fused : {true, false}) {
    TrainerOptions options = Linear("vtrace");
    options.fused = fused;
    auto trainer = Make(weights, options);
    EXPECT_EQ(trainer->fused(), fused);
    ASSERT_TRUE(trainer->Train(RandomBatch(*weights, 5, 3, 4, 0.8)).ok());
    results.push_back(WeightsOf(*trainer));
  }
  EXPECT_LT(LargestDifference(results[0], results[1]), 2e-5);
}

TEST(Trainer, SeesNoMismatchWhereTheSamplerUsedTheSameWeightsAndTemperature) {
  const auto weights = TinyWeights(TinyConfig());
  v1::Batch batch = RandomBatch(*weights, 3, 2, 4, 0.6);
  v1::Batch other = RandomBatch(*weights, 4, 2, 4, 1.5);  // several temperatures in one batch
  for (v1::Sample& sample : *other.mutable_samples()) {
    sample.mutable_trajectory()->mutable_id()->set_group(sample.trajectory().id().group() + 100);
    *batch.add_samples() = sample;
  }
  auto trainer = Make(weights, Options("tis"));
  const auto report = trainer->Train(batch);
  ASSERT_TRUE(report.ok());
  EXPECT_LT(report->metrics.at("mismatch_p99"), 1e-4);
  EXPECT_NEAR(report->metrics.at("ess"), 1.0, 1e-4);
  EXPECT_NEAR(report->metrics.at("correction"), 1.0, 1e-4);
}

TEST(Trainer, UndoesTheWholeStepWhenTheLossIsNoNumber) {
  const auto weights = TinyWeights(TinyConfig());
  TrainerOptions options = Options("grpo");
  options.minibatches = 6;
  auto trainer = Make(weights, options);
  ASSERT_TRUE(trainer->Train(RandomBatch(*weights, 1)).ok());
  const NamedTensors before = WeightsOf(*trainer), moments = trainer->OptimizerState();
  v1::Batch batch = RandomBatch(*weights, 2);
  batch.set_step(1);
  // Its ratio overflows; with a negative advantage nothing clips it.
  v1::Sample& sample = *batch.mutable_samples(3);
  sample.mutable_verdict()->set_reward(-5);
  sample.mutable_trajectory()->mutable_turns(0)->set_logprobs(0, -1e6f);
  const auto report = trainer->Train(batch);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("step 1: the loss is not a finite number"));
  EXPECT_TRUE(Same(WeightsOf(*trainer), before));
  EXPECT_TRUE(Same(trainer->OptimizerState(), moments));
  EXPECT_EQ(trainer->progress().steps, 1u);
}

TEST(Trainer, LeavesOutWhatReplayMarkedAndCountsLagByStepsNotByVersionNumbers) {
  const auto weights = TinyWeights(TinyConfig());
  auto trainer = Make(weights, Options("tis"));
  trainer->NotePublished(10, 0);
  trainer->NotePublished(20, 1);  // numbers that were lost to a crash are not lag
  trainer->NotePublished(30, 4);
  v1::Batch batch;
  batch.set_step(4);
  batch.set_learner_version(30);
  *batch.add_samples() = OneTurn(*weights, 1, 0, 1, {1, 2}, {3, 4, 5}, 1.0, 20);
  *batch.add_samples() = OneTurn(*weights, 1, 1, 0, {1, 2}, {3, 4}, 1.0, 30);
  auto report = trainer->Train(batch);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->metrics.at("tokens"), 5);
  EXPECT_EQ(report->metrics.at("lag_max"), 3);
  v1::Trajectory& old = *batch.mutable_samples(0)->mutable_trajectory();
  old.mutable_turns(0)->mutable_versions(0)->set_masked(true);
  report = trainer->Train(batch);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->metrics.at("tokens"), 2);
  EXPECT_EQ(report->metrics.at("masked_tokens"), 3);
  EXPECT_EQ(report->metrics.at("lag_max"), 0);
}

TEST(Trainer, ABatchWithNothingToTrainOnIsAStepWithoutAnUpdate) {
  const auto weights = TinyWeights(TinyConfig());
  auto trainer = Make(weights, Options("grpo"));
  v1::Batch batch = RandomBatch(*weights, 1);
  for (v1::Sample& sample : *batch.mutable_samples()) {
    for (v1::Turn& turn : *sample.mutable_trajectory()->mutable_turns()) {
      for (v1::VersionRun& run : *turn.mutable_versions()) run.set_masked(true);
    }
  }
  const auto report = trainer->Train(batch);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->metrics.at("updates"), 0);
  EXPECT_TRUE(Same(WeightsOf(*trainer), weights->tensors()));
  EXPECT_EQ(trainer->progress().steps, 1u);
}

TEST(Trainer, RefusesSamplesThatMustNotBeTrainedOn) {
  const auto weights = TinyWeights(TinyConfig());
  auto trainer = Make(weights, Options("grpo"));
  v1::Batch batch = RandomBatch(*weights, 1);
  batch.mutable_samples(0)->mutable_verdict()->set_scored(false);
  EXPECT_THAT(trainer->Train(batch).status().message(), HasSubstr("task/0/0#1 has no verdict"));
  batch = RandomBatch(*weights, 1);
  batch.mutable_samples(0)->mutable_trajectory()->set_purpose(v1::PURPOSE_EVAL);
  EXPECT_THAT(trainer->Train(batch).status().message(), HasSubstr("evaluation"));
  batch = RandomBatch(*weights, 1);
  batch.mutable_samples(1)->mutable_trajectory()->mutable_turns(0)->set_ids(0, 37);
  EXPECT_THAT(trainer->Train(batch).status().message(), HasSubstr("outside the vocabulary"));
}

TEST(Trainer, PaysForTheDistanceFromTheReference) {
  const auto weights = TinyWeights(TinyConfig());
  TrainerOptions options = Options("grpo");
  options.objective.kl_coefficient = 0.1;
  EXPECT_THAT(Trainer::New(weights, options).status().message(), HasSubstr("no reference model"));
  auto trainer = Make(weights, options);
  const auto first = trainer->Train(RandomBatch(*weights, 1));
  ASSERT_TRUE(first.ok());
  EXPECT_NEAR(first->metrics.at("kl"), 0, 1e-5);
  const auto second = trainer->Train(RandomBatch(*weights, 2));
  EXPECT_GT(second->metrics.at("kl"), 1e-5);
}

TEST(Trainer, OfAnAdapterLeavesTheBaseAsItIs) {
  const auto base = TinyWeights(TinyConfig());
  LoraConfig lora;
  lora.rank = 4;
  lora.alpha = 8;
  lora.target_modules = {"q_proj", "v_proj", "down_proj"};
  const auto adapter = NewAdapter(lora, base->config(), 3);
  ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
  const auto weights = *PolicyWeights::WithAdapter(base, *adapter);
  auto trainer = Make(weights, Options("tis"));
  EXPECT_TRUE(trainer->lora());
  EXPECT_FALSE(trainer->fused());
  const NamedTensors before = base->tensors();
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(trainer->Train(RandomBatch(*weights, step)).ok());
  }
  const auto after = *trainer->Snapshot();
  EXPECT_TRUE(Same(after->tensors(), before));
  EXPECT_GT(LargestDifference(after->adapter()->tensors, (*adapter)->tensors), 1e-4);
}

TEST(Trainer, OnACpuWarnsOnceThatNoMultiprocessorsCanBeReserved) {
  const auto weights = TinyWeights(TinyConfig());
  const v1::Batch batch = RandomBatch(*weights, 1);
  TrainerOptions options = Options("grpo");
  auto plain = Make(weights, options);
  options.reserve_multiprocessors = 16;
  auto sharing = Make(weights, options);
  EXPECT_EQ(sharing->multiprocessors(), 0);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(plain->Train(batch).ok());
    const auto report = sharing->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    ASSERT_EQ(report->warnings.size(), step == 0 ? 1u : 0u);
    if (step == 0) {
      EXPECT_EQ(report->warnings[0],
                "learner.reserve_multiprocessors = 16 has no effect: the learner is not on a GPU");
    }
  }
  EXPECT_TRUE(Same(plain->Leaves(), sharing->Leaves()));
  options.reserve_multiprocessors = -1;
  EXPECT_EQ(Trainer::New(weights, options, weights).status().code(), Code::kInvalid);
}

TEST(Trainer, WarnsOfAGradientThatStandsOut) {
  const auto weights = TinyWeights(TinyConfig());
  TrainerOptions options = Options("rloo");
  options.schedule.peak = 0;
  auto trainer = Make(weights, options);
  const v1::Batch batch = RandomBatch(*weights, 1);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(trainer->Train(batch)->warnings.empty());
  v1::Batch loud = batch;
  for (v1::Sample& sample : *loud.mutable_samples()) {
    sample.mutable_verdict()->set_reward(100 * sample.verdict().reward());
  }
  const auto report = trainer->Train(loud);
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_THAT(report->warnings[0], HasSubstr("gradient spike"));
  EXPECT_EQ(report->metrics.at("grad_spike"), 1);
}

}  // namespace
}  // namespace tidemill
