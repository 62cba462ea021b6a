// Experts against values computed by transformers and PEFT: routers, kept routing, adapters.
#include "model/torch/experts.h"

#include "model/torch/aten.h"

#include "model/layer_plan.h"
#include "testing/golden.h"
#include "testing/test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

std::vector<std::string> ExpertModels() {
  std::vector<std::string> models;
  for (const std::string& model : GoldenModels()) {
    const std::string name = std::filesystem::path(model).filename();
    if (name == "mixtral-tiny" || name == "qwen3-moe-tiny") models.push_back(model);
  }
  return models;
}

class ExpertsGolden : public GoldenModelTest {
 protected:
  std::string Of(size_t layer, const char* what) const {
    return "layers." + std::to_string(layer) + "." + what;
  }
  // The experts of a pack of seq0 alone, as `prefix`.layers.N.experts gives them.
  at::Tensor Given(const std::string& prefix) const {
    std::vector<at::Tensor> layers;
    const DecoderPlan plan = PlanDecoder(weights_->config());
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      if (plan.layers[i].experts.count == 0) continue;
      layers.push_back(Expected(prefix + Of(i, "experts")).to(at::kLong));
    }
    return at::cat(layers, 1);
  }
  at::Tensor NextLogprobs(const ModelTensorsView& view, const PackedBatch& batch,
                          const at::Tensor& hidden) const {
    const int64_t n = batch.tokens.size(0) - 1;
    return TokenLogprobs(view, hidden.narrow(0, 0, n), batch.tokens.narrow(0, 1, n)).logprobs;
  }
};

TEST_P(ExpertsGolden, RoutersChooseAndBalanceAsThoseOfTransformers) {
  RouterNotes notes;
  const at::NoGradGuard no_grad;
  (void)ForwardHidden(weights_->config(), weights_->view(), Pack({sequences_[0]}), std::nullopt,
                      false, &notes);
  size_t sparse = 0;
  for (size_t i = 0; i < weights_->view().layers.size(); ++i) {
    if (!weights_->config().experts.In(static_cast<int64_t>(i))) continue;
    EXPECT_TRUE(at::equal(notes.chosen[sparse], Expected("seq0." + Of(i, "experts")).to(at::kLong)))
        << i;
    const at::Tensor p = at::softmax(Expected("seq0." + Of(i, "router_logits")), 1);
    EXPECT_LT(MaxDifference(notes.probabilities[sparse], p), 1e-5) << i;
    ++sparse;
  }
  EXPECT_EQ(notes.chosen.size(), sparse);
  EXPECT_NEAR(BalanceLoss(notes).item<double>(), Expected("seq0.aux_loss").item<double>(), 1e-5);
  EXPECT_EQ(notes.given, 0);
}

TEST_P(ExpertsGolden, GivenExpertsAreReplayedInForwardAndBackward) {
  auto model = TrainableModel::FromWeights(*weights_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  PackedBatch batch = Pack({sequences_[0]});
  batch.experts = Given("forced.");
  RouterNotes notes;
  const at::Tensor hidden = (*model)->Forward(batch, std::nullopt, false, &notes);
  const at::Tensor logprobs = NextLogprobs((*model)->view(), batch, hidden);
  EXPECT_LT(MaxDifference(logprobs, Expected("forced.logprobs")), 1e-5);
  EXPECT_EQ(notes.given, batch.experts.numel());
  EXPECT_GT(notes.differing, 0) << "the given ones were drawn at random";
  (-logprobs.mean()).backward();
  size_t compared = 0;
  for (const auto& [name, expected] : expected_) {
    if (!name.starts_with("forced.grad.")) continue;
    const at::Tensor& leaf = (*model)->parameters().at(name.substr(12));
    EXPECT_LT(MaxDifference(leaf.grad(), expected),
              1e-5 * expected.abs().max().item<double>() + 1e-8)
        << name;
    ++compared;
  }
  EXPECT_GE(compared, 4u);
}

TEST_P(ExpertsGolden, TheRoutersOwnExpertsGivenChangeNothingAndOthersOnlyWhereReplayed) {
  const at::NoGradGuard no_grad;
  PackedBatch batch = Pack({sequences_[0]});
  const auto logprobs = [&] {
    return NextLogprobs(weights_->view(), batch,
                        ForwardHidden(weights_->config(), weights_->view(), batch));
  };
  const at::Tensor plain = logprobs();
  batch.experts = Given("seq0.");
  EXPECT_TRUE(at::equal(logprobs(), plain));
  // Those of the first half alone: the router chooses the others.
  batch.experts = Given("forced.");
  batch.experts.narrow(0, 12, batch.experts.size(0) - 12).fill_(-1);
  EXPECT_LT(
      MaxDifference(logprobs().narrow(0, 0, 12), Expected("forced.logprobs").narrow(0, 0, 12)),
      1e-5);
  EXPECT_GT(MaxDifference(logprobs(), Expected("forced.logprobs")), 1e-3);
  batch.replay_experts = false;
  EXPECT_TRUE(at::equal(logprobs(), plain));
}

TEST_P(ExpertsGolden, AnAdapterOnExpertsIsThatOfPeftAppliedMergedAndSaved) {
  auto adapter = LoadAdapter(GetParam() + "/lora-experts", weights_->config());
  ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
  const auto expected = ReadTensors(GetParam() + "/lora-experts/expected.safetensors");
  ASSERT_TRUE(expected.ok());
  const auto logits = [&](const PolicyWeights& weights) {
    const at::NoGradGuard no_grad;
    return Logits(weights.view(),
                  ForwardHidden(weights.config(), weights.view(), Pack({sequences_[0]})));
  };
  const auto adapted = PolicyWeights::WithAdapter(weights_, *adapter);
  ASSERT_TRUE(adapted.ok()) << adapted.status().ToString();
  EXPECT_LT(MaxDifference(logits(**adapted), expected->at("seq0.logits")), 1e-5);
  const auto merged = PolicyWeights::Merged(*adapted);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_LT(MaxDifference(logits(**merged), expected->at("seq0.logits")), 1e-5);
  const TemporaryDirectory dir;
  ASSERT_TRUE(SaveAdapter(**adapter, dir.path()).ok());
  const auto read = LoadAdapter(dir.path(), weights_->config());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_TRUE((*read)->config.experts);
  for (const auto& [name, tensor] : (*read)->tensors) {
    EXPECT_TRUE(at::equal(tensor, (*adapter)->tensors.at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ExpertsGolden, testing::ValuesIn(ExpertModels()), GoldenName);

// Against automatic differentiation of the plain formula, an adapter on the experts included.
TEST(Experts, GradientsOfAnAdapterOnExpertsAreThoseOfMergedWeights) {
  const ModelConfig config = TinyConfig(ModelFamily::kQwen3Moe);
  const auto base = PolicyWeights::NewRandom(config, 3);
  ASSERT_TRUE(base.ok());
  LoraConfig lora;
  lora.rank = 2;
  lora.alpha = 3;
  lora.experts = true;
  lora.target_pattern = "all-linear";
  auto fresh = NewAdapter(lora, config, 4);
  ASSERT_TRUE(fresh.ok()) << fresh.status().ToString();
  LoraAdapter drawn = **fresh;
  at::manual_seed(5);
  for (auto& [name, tensor] : drawn.tensors) tensor = at::randn(tensor.sizes()) * 0.2;
  const auto weights =
      PolicyWeights::WithAdapter(*base, std::make_shared<const LoraAdapter>(drawn));
  ASSERT_TRUE(weights.ok());
  auto model = TrainableModel::FromAdapter(*weights);
  ASSERT_TRUE(model.ok());
  const PackedBatch batch = Pack({{1, 2, 3, 4, 5, 6, 7, 8, 9}});
  const at::Tensor weighing = at::randn({9, config.hidden_size});
  const auto loss_of = [&](const PolicyWeights& at) {
    const at::NoGradGuard no_grad;
    return (ForwardHidden(config, at.view(), batch) * weighing).sum().item<double>();
  };
  ((*model)->Forward(batch) * weighing).sum().backward();
  for (const auto& [name, parameter] : (*model)->parameters()) {
    if (name.find("experts") == std::string::npos) continue;
    // The largest number of the gradient, against a difference of two merged models.
    const at::Tensor grad = parameter.grad();
    const int64_t place = grad.abs().argmax().item<int64_t>();
    double ends[2];
    for (const int side : {0, 1}) {
      LoraAdapter moved = drawn;
      moved.tensors[name] = moved.tensors[name].clone();
      moved.tensors[name].view(-1)[place] += side == 0 ? -1e-2 : 1e-2;
      const auto at = PolicyWeights::WithAdapter(*base, std::make_shared<const LoraAdapter>(moved));
      ASSERT_TRUE(at.ok());
      const auto merged = PolicyWeights::Merged(*at);
      ASSERT_TRUE(merged.ok());
      ends[side] = loss_of(**merged);
    }
    const double expected = (ends[1] - ends[0]) / 2e-2;
    EXPECT_NEAR(grad.view(-1)[place].item<double>(), expected, 0.05 * std::abs(expected) + 1e-3)
        << name;
  }
}

}  // namespace
}  // namespace tidemill
