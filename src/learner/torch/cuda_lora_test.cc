// Training an adapter on a GPU above a frozen base in one block, against float32 on the CPU.
// Skipped where there is no GPU.
#include "model/torch/aten.h"
#include "testing/tiny_config.h"

#include <gtest/gtest.h>

#include "model/torch/cuda_adapter.h"
#include "model/torch/moved_weights.h"
#include "model/torch/weight_block.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using SharedWeights = std::shared_ptr<const PolicyWeights>;

double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor mine = a.detach().to(at::kCPU, at::kDouble);
  const at::Tensor theirs = b.detach().to(at::kCPU, at::kDouble);
  return (mine - theirs).norm().item<double>() / (theirs.norm().item<double>() + 1e-30);
}

struct LoraCase {
  const char* name;
  ModelFamily family;
  bool tied;
  int64_t rank;
  std::vector<std::string> targets;  // empty: all
};

class CudaLora : public testing::TestWithParam<LoraCase> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }

  static ModelConfig Config() {
    ModelConfig config;
    config.vocab_size = 403;
    config.hidden_size = 96;
    config.intermediate_size = 160;
    config.num_layers = 2;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 32;
    config.max_position_embeddings = 512;
    config.initializer_range = 0.08;
    config.tie_word_embeddings = GetParam().tied;
    TakeFormOf(GetParam().family, config);
    // Near the width of a head, as in published models: scores that are much larger make bfloat16
    // round gradients by more than the bounds.
    if (config.query_scalar > 0) config.query_scalar = static_cast<double>(config.head_dim - 4);
    return config;
  }
  static SharedWeights Base(uint64_t seed = 3) {
    NamedTensors tensors = (*PolicyWeights::NewRandom(Config(), seed))->tensors();
    at::manual_seed(seed);
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with(".bias")) tensor = at::randn_like(tensor) * 0.2;
    }
    const auto plain = *PolicyWeights::FromTensors(Config(), tensors);
    auto block = CopyWeightBlock(*plain, {.device = kTestDevice, .dtype = Dtype::kBF16});
    TM_CHECK(block.ok(), block.status().message());
    return *block;
  }
  static SharedWeights Adapted(const SharedWeights& base, uint64_t seed = 4) {
    LoraConfig lora;
    lora.rank = GetParam().rank;
    lora.alpha = 3 * static_cast<double>(lora.rank);
    lora.target_modules = GetParam().targets;
    if (GetParam().targets.empty()) lora.target_pattern = "all-linear";
    lora.alpha_pattern = {{"layers.1.mlp.up_proj", 5}};
    LoraAdapter adapter = **NewAdapter(lora, Config(), seed, kTestDevice);
    at::manual_seed(seed);
    for (auto& [name, tensor] : adapter.tensors) {
      tensor = (at::randn(tensor.sizes()) * 0.1).to(tensor.device());
    }
    return *PolicyWeights::WithAdapter(base, std::make_shared<const LoraAdapter>(adapter));
  }
  // The same in float32 on the CPU.
  static SharedWeights OnCpu(const SharedWeights& weights) {
    const auto base =
        *MovedWeights(*PolicyWeights::WithAdapter(weights, nullptr), "cpu", at::kFloat);
    LoraAdapter adapter = *weights->adapter();
    for (auto& [name, tensor] : adapter.tensors) tensor = tensor.detach().cpu();
    return *PolicyWeights::WithAdapter(base, std::make_shared<const LoraAdapter>(adapter));
  }

  static std::vector<int32_t> Ids(int seed, int count) {
    std::vector<int32_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back((i * 131 + seed * 77 + i * i) % 403);
    return ids;
  }
  // Two sequences that continue a third.
  static PackedBatch SharedPrompt(const std::string& device) {
    const std::vector<std::vector<int32_t>> parts = {Ids(0, 30), Ids(1, 21), Ids(2, 14)};
    PackedBatch batch = Pack(parts, device);
    batch.parents = {-1, 0, 0};
    std::vector<int64_t> positions;
    for (size_t s = 0; s < parts.size(); ++s) {
      for (size_t i = 0; i < parts[s].size(); ++i) {
        positions.push_back(static_cast<int64_t>((s > 0 ? 30 : 0) + i));
      }
    }
    batch.positions = at::tensor(positions, at::kLong).to(at::Device(device));
    return batch;
  }

  // Of each gradient of a pass, its relative distance to that of float32 on the CPU.
  static std::map<std::string, double> Errors(const TrainableModel& model,
                                              const TrainableModel& plain, double times = 1) {
    std::map<std::string, double> errors;
    for (const auto& [name, parameter] : model.parameters()) {
      errors[name] = RelativeError(parameter.grad(), times * plain.parameters().at(name).grad());
    }
    return errors;
  }

  static at::Tensor Loss(const TrainableModel& model, const PackedBatch& batch,
                         std::optional<at::ScalarType> compute, bool recompute) {
    const at::Tensor hidden = model.Forward(batch, compute, recompute);
    const int64_t n = batch.tokens.size(0) - 1;
    const TokenScores scores = TokenLogprobs(model.view(), hidden.narrow(0, 0, n),
                                             batch.tokens.narrow(0, 1, n), 1.25, 1024, recompute);
    return 0.1 * scores.entropy.mean() - scores.logprobs.mean();
  }
};

TEST_P(CudaLora, GradientsOfEveryMatrixAreNearThoseOfFloat32) {
  const SharedWeights base = Base();
  const SharedWeights weights = Adapted(base);
  const auto plain = *TrainableModel::FromAdapter(OnCpu(weights));
  for (const bool shared : {false, true}) {
    const auto batch = [&](const std::string& device) {
      return shared ? SharedPrompt(device) : Pack({Ids(1, 60), Ids(2, 33)}, device);
    };
    for (auto& [name, parameter] : plain->parameters()) parameter.mutable_grad() = at::Tensor();
    const at::Tensor expected = Loss(*plain, batch("cpu"), std::nullopt, false);
    expected.backward();
    // What libtorch makes of the same pass in bfloat16, operation by operation: with one rank a
    // gradient is a sum that nearly cancels, and all of its error is rounding.
    const auto apart = *TrainableModel::FromAdapter(*PolicyWeights::WithAdapter(
        *MovedWeights(base, kTestDevice, at::kBFloat16), weights->adapter()));
    ASSERT_EQ(apart->view().adapter, nullptr);
    Loss(*apart, batch(kTestDevice), at::kBFloat16, false).backward();
    std::map<std::string, double> bounds = Errors(*apart, *plain);
    for (auto& [name, bound] : bounds) bound = std::max(0.05, 1.25 * bound);
    for (const bool recompute : {false, true}) {
      const auto fast = *TrainableModel::FromAdapter(weights);
      ASSERT_NE(fast->view().adapter, nullptr) << "the blocks are used";
      // A second pass adds to the gradients of the first.
      for (const double times : {1.0, 2.0}) {
        const at::Tensor loss = Loss(*fast, batch(kTestDevice), at::kBFloat16, recompute);
        EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 0.02);
        loss.backward();
        for (const auto& [name, error] : Errors(*fast, *plain, times)) {
          EXPECT_LT(error, bounds.at(name))
              << name << (recompute ? ", recomputed" : "") << (shared ? ", shared prompt" : "");
        }
      }
      ASSERT_EQ(fast->parameters().size(), plain->parameters().size());
      for (const auto& [name, tensor] : weights->tensors()) {
        EXPECT_FALSE(tensor.requires_grad() || tensor.grad().defined()) << name;
      }
    }
  }
}

TEST_P(CudaLora, SnapshotsShareTheBaseAndHoldWhatWasLearned) {
  const SharedWeights base = Base();
  const SharedWeights weights = Adapted(base);
  const auto model = *TrainableModel::FromAdapter(weights);
  const SharedWeights before = *model->Snapshot(Dtype::kBF16);
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, parameter] : model->parameters()) parameter.add_(1.0);
  }
  const SharedWeights after = *model->Snapshot(Dtype::kBF16);
  EXPECT_EQ(WholeBlock(*before), WholeBlock(*base));
  EXPECT_EQ(WholeBlock(*after), WholeBlock(*base));
  for (const auto& [name, tensor] : weights->adapter()->tensors) {
    EXPECT_TRUE(at::equal(before->adapter()->tensors.at(name), tensor)) << name;
    EXPECT_TRUE(at::equal(after->adapter()->tensors.at(name), tensor + 1.0)) << name;
  }
  ASSERT_TRUE(model->Restore(before->adapter()->tensors).ok());
  const SharedWeights restored = *model->Snapshot(Dtype::kBF16);
  for (const auto& [name, tensor] : weights->adapter()->tensors) {
    EXPECT_TRUE(at::equal(restored->adapter()->tensors.at(name), tensor)) << name;
  }
}

TEST_P(CudaLora, SomeStepsOfATrainerMoveTheAdapterAsOnTheCpu) {
  const SharedWeights weights = Adapted(Base());
  const SharedWeights there = OnCpu(weights);
  TrainerOptions options;
  options.schedule.peak = 1e-3;
  options.grad_clip = 0;
  auto plain = *Trainer::New(there, options);
  options.bfloat16 = true;
  options.publish_dtype = Dtype::kBF16;
  auto fast = *Trainer::New(weights, options);
  for (uint64_t step = 0; step < 4; ++step) {
    const v1::Batch batch = RandomBatch(*there, step + 1, 3, 4);
    const auto expected = plain->Train(batch);
    const auto report = fast->Train(batch);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    EXPECT_NEAR(report->metrics.at("grad_norm") / expected->metrics.at("grad_norm"), 1, 0.05);
    EXPECT_NEAR(report->metrics.at("entropy"), expected->metrics.at("entropy"), 0.02);
  }
  // How far each tensor went, and where to: AdamW moves numbers by about their sign.
  double along = 0, mine = 0, theirs = 0;
  for (const auto& [name, start] : weights->adapter()->tensors) {
    const at::Tensor a = (fast->Parameters().at(name).detach() - start).cpu().to(at::kDouble);
    const at::Tensor b =
        plain->Parameters().at(name).detach().to(at::kDouble) - start.cpu().to(at::kDouble);
    along += (a * b).sum().item<double>();
    mine += a.square().sum().item<double>();
    theirs += b.square().sum().item<double>();
  }
  EXPECT_GT(along / std::sqrt(mine * theirs), 0.97);
  EXPECT_NEAR(mine / theirs, 1, 0.03);
}

INSTANTIATE_TEST_SUITE_P(Adapters, CudaLora,
                         testing::Values(LoraCase{"Rank16", ModelFamily::kQwen2, true, 16, {}},
                                         LoraCase{"Rank1", ModelFamily::kQwen3, false, 1, {}},
                                         LoraCase{"Windows", ModelFamily::kGemma3, true, 3, {}},
                                         LoraCase{"Rank6SomeModules",
                                                  ModelFamily::kQwen2,
                                                  false,
                                                  6,
                                                  {"k_proj", "gate_proj", "o_proj"}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tidemill
