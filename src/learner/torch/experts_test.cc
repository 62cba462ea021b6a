// Routing kept, in the learner: tokens are trained through the experts that drew them.
#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/token_experts.h"
#include "engine/torch/torch_engine.h"
#include "learner/packing.h"
#include "model/layer_plan.h"
#include "testing/engine_check.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

TrainerOptions ExpertOptions() {
  TrainerOptions options;
  options.objective = *ObjectivePreset("tis");
  options.schedule.peak = 1e-3;
  return options;
}

// An engine whose routers choose at random, as far as the learner knows: all choices are drawn,
// and the log-probabilities are those of a pass through them.
v1::Batch RandomlyRouted(const PolicyWeights& weights, uint64_t seed) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = weights.config();
  const int64_t choices = PlanDecoder(config).ChoicesOfToken(), each = config.experts.chosen;
  at::manual_seed(static_cast<uint64_t>(seed));
  v1::Batch batch = RandomBatch(weights, seed);
  for (v1::Sample& sample : *batch.mutable_samples()) {
    v1::Trajectory& trajectory = *sample.mutable_trajectory();
    v1::Turn& turn = *trajectory.mutable_turns(0);
    std::vector<int32_t> ids(trajectory.prompt_ids().begin(), trajectory.prompt_ids().end());
    const size_t prompt = ids.size();
    ids.insert(ids.end(), turn.ids().begin(), turn.ids().end());
    const auto n = static_cast<int64_t>(ids.size());
    PackedBatch pack = Pack({ids});
    std::vector<at::Tensor> layers;
    for (int64_t i = 0; i < choices / each; ++i) {
      layers.push_back(
          at::rand({n, config.experts.count}).argsort(int64_t{1}, false).narrow(1, 0, each));
    }
    pack.experts = at::cat(layers, 1).contiguous();
    const at::Tensor logprobs =
        at::log_softmax(Logits(weights.view(), ForwardHidden(config, weights.view(), pack)), 1);
    for (int i = 0; i < turn.ids_size(); ++i) {
      const auto row = static_cast<int64_t>(prompt) + i - 1;
      turn.set_logprobs(i, logprobs[row][ids[static_cast<size_t>(row) + 1]].item<float>());
    }
    TokenExperts told{.first = 0, .choices = static_cast<uint32_t>(choices), .chosen = {}};
    const int64_t* data = pack.experts.data_ptr<int64_t>();
    told.chosen.assign(data, data + (n - 1) * choices);
    FillExperts(told, 0, *turn.mutable_experts());
  }
  return batch;
}

class LearnerExperts : public testing::TestWithParam<ModelFamily> {
 protected:
  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Families, LearnerExperts,
                         testing::Values(ModelFamily::kQwen3Moe, ModelFamily::kMixtral),
                         [](const auto& info) { return std::string(ModelFamilyName(info.param)); });

TEST_P(LearnerExperts, ReplayedMakeTheRatioOneAndWithoutThatTheMismatchIsReported) {
  const v1::Batch batch = RandomlyRouted(*weights_, 3);
  for (const bool replay : {true, false}) {
    TrainerOptions options = ExpertOptions();
    options.replay_experts = replay;
    auto trainer = Trainer::New(weights_, options);
    ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
    const auto report = (*trainer)->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    const auto& metrics = report->metrics;
    EXPECT_GT(metrics.at("experts_mismatch"), 0.1);
    if (replay) {
      EXPECT_LT(metrics.at("mismatch_fresh_p99"), 1e-4);
    } else {
      EXPECT_GT(metrics.at("mismatch_fresh"), 1e-2);
    }
  }
}

TEST_P(LearnerExperts, OfTheEnginesOwnTurnsAreThoseOfTheLearnersRouters) {
  EngineRun run(weights_, {.prefill_chunk = 7});
  v1::Batch batch;
  batch.set_learner_version(1);
  for (uint32_t member = 0; member < 4; ++member) {
    run.Add(member + 1, {1, 2, 3, 4, 5}, {.max_new_tokens = 12, .seed = member}, 1);
  }
  run.Finish();
  for (uint32_t member = 0; member < 4; ++member) {
    const TurnOutput& turn = run.Turn(member + 1);
    v1::Sample sample = OneTurn(*weights_, 1, member, member % 2, {1, 2, 3, 4, 5},
                                {turn.ids.begin(), turn.ids.end()});
    v1::Turn& stored = *sample.mutable_trajectory()->mutable_turns(0);
    for (int i = 0; i < stored.ids_size(); ++i) {
      stored.set_logprobs(i, turn.logprobs[static_cast<size_t>(i)]);
    }
    FillExperts(turn.experts, 0, *stored.mutable_experts());
    *batch.add_samples() = sample;
  }
  auto trainer = Trainer::New(weights_, ExpertOptions());
  ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
  const auto report = (*trainer)->Train(batch);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->metrics.at("experts_mismatch"), 0);
  EXPECT_LT(report->metrics.at("mismatch_fresh_p99"), 1e-4);
  EXPECT_GT(report->metrics.at("balance_loss"), 0.5);
}

TEST_P(LearnerExperts, TheBalancingLossSpreadsThem) {
  const auto after = [&](double coefficient) {
    TrainerOptions options = ExpertOptions();
    options.balance = coefficient;
    options.schedule.peak = 1e-2;
    auto trainer = Trainer::New(weights_, options);
    EXPECT_TRUE(trainer.ok());
    double balance = 0;
    for (uint64_t step = 0; step < 15; ++step) {
      v1::Batch batch = RandomBatch(*weights_, 5);
      batch.set_step(step);
      balance = (*trainer)->Train(batch)->metrics.at("balance_loss");
    }
    return balance;
  };
  EXPECT_LT(after(1.0), after(0.0) - 0.01);
}

TEST_P(LearnerExperts, ABiasOfTheChoiceSpreadsThemAndTravels) {
  const auto biased = PolicyWeights::WithRouterBias(weights_);
  ASSERT_TRUE(biased.ok()) << biased.status().ToString();
  const v1::Batch batch = RandomBatch(*weights_, 5);
  std::vector<std::vector<int32_t>> sequences;
  for (const v1::Sample& sample : batch.samples()) {
    const auto& prompt = sample.trajectory().prompt_ids();
    const auto& answer = sample.trajectory().turns(0).ids();
    sequences.emplace_back(prompt.begin(), prompt.end());
    sequences.back().insert(sequences.back().end(), answer.begin(), answer.end());
  }
  const auto largest_share = [&](const PolicyWeights& weights) {
    const at::NoGradGuard no_grad;
    RouterNotes notes;
    (void)ForwardHidden(weights.config(), weights.view(), Pack(sequences), std::nullopt, false,
                        &notes);
    return at::bincount(notes.chosen.back().flatten()).max().item<double>() /
           static_cast<double>(notes.chosen.back().numel());
  };
  EXPECT_EQ(largest_share(**biased), largest_share(*weights_)) << "zero changes nothing";
  TrainerOptions options = ExpertOptions();
  options.schedule.peak = 0;  // the bias alone moves
  options.balance_bias = 0.005;
  auto trainer = Trainer::New(*biased, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
  for (uint64_t step = 0; step < 40; ++step) {
    v1::Batch next = batch;
    next.set_step(step);
    const auto report = (*trainer)->Train(next);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
  }
  const auto after = (*trainer)->Snapshot();
  ASSERT_TRUE(after.ok());
  EXPECT_LT(largest_share(**after), largest_share(*weights_) - 0.02);
  // Saved, read, and drawn from.
  const TemporaryDirectory dir;
  ASSERT_TRUE((*after)->Save(dir.path()).ok());
  const auto read = PolicyWeights::Load(dir.path());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(largest_share(**read), largest_share(**after));
  EngineRun run(*read, {});
  run.Add(1, {1, 2, 3, 4, 5}, {.max_new_tokens = 20, .seed = 4});
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(LearnerExperts, ThatDoNotFitTheModelAreRefusedByName) {
  const v1::Batch good = RandomlyRouted(*weights_, 3);
  const auto refusal = [&](const std::function<void(v1::TokenExperts&)>& change) {
    v1::Sample sample = good.samples(0);
    change(*sample.mutable_trajectory()->mutable_turns(0)->mutable_experts());
    const auto choices = static_cast<uint32_t>(PlanDecoder(weights_->config()).ChoicesOfToken());
    const auto row = Flatten(
        sample,
        {.lag_of = {}, .vocabulary = 37, .choices = {choices, weights_->config().experts.count}});
    return row.ok() ? "accepted" : row.status().message();
  };
  EXPECT_EQ(refusal([](v1::TokenExperts&) {}), "accepted");
  EXPECT_THAT(refusal([](auto& e) { e.set_choices(1); }), HasSubstr("1 choices for a token"));
  EXPECT_THAT(refusal([](auto& e) { e.set_first(100); }), HasSubstr("the sequence has"));
  EXPECT_THAT(refusal([](auto& e) { (*e.mutable_experts())[1] = 1; }), HasSubstr("is not one of"));
}

}  // namespace
}  // namespace tidemill
