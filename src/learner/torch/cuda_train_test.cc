// The training pass on a GPU: float32 against the values of transformers, bfloat16 against float32
// on the CPU. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "learner/torch/adamw.h"
#include "model/torch/aten.h"
#include "model/torch/host_copy.h"
#include "model/torch/moved_weights.h"
#include "testing/golden.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

at::Tensor LossWithEntropy(const ModelTensorsView& view, const at::Tensor& hidden,
                           const PackedBatch& batch, bool recompute = false) {
  std::vector<at::Tensor> rows, targets;
  for (size_t s = 0; s + 1 < batch.starts.size(); ++s) {
    const int64_t first = batch.starts[s], n = batch.starts[s + 1] - first - 1;
    rows.push_back(hidden.narrow(0, first, n));
    targets.push_back(batch.tokens.narrow(0, first + 1, n));
  }
  const TokenScores scores =
      TokenLogprobs(view, at::cat(rows), at::cat(targets), 1.25, 1024, recompute);
  return 0.1 * scores.entropy.mean() - scores.logprobs.mean();
}

// ‖a − b‖ / ‖b‖
double Relative(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor mine = a.detach().to(at::kCPU, at::kDouble);
  const at::Tensor theirs = b.detach().to(at::kCPU, at::kDouble);
  return (mine - theirs).norm().item<double>() / (theirs.norm().item<double>() + 1e-30);
}

class CudaTrainGolden : public GoldenModelTest {};

TEST_P(CudaTrainGolden, Float32LogitsAndGradientsAreThoseOfTransformers) {
  SKIP_WITHOUT_GPU();
  auto weights = MovedWeights(weights_, kTestDevice, at::kFloat);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  auto model = TrainableModel::FromWeights(**weights);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const PackedBatch batch = Pack(sequences_, kTestDevice);
  const at::Tensor hidden = (*model)->Forward(batch);
  const at::Tensor logits = Logits((*model)->view(), hidden).detach().cpu();
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const int64_t first = batch.starts[i], n = batch.starts[i + 1] - first;
    const at::Tensor difference =
        logits.narrow(0, first, n) - Expected("seq" + std::to_string(i) + ".logits");
    EXPECT_LT(difference.abs().max().item<double>(), 1e-3);
  }
  std::vector<at::Tensor> rows, targets;
  for (size_t s = 0; s + 1 < batch.starts.size(); ++s) {
    const int64_t first = batch.starts[s], n = batch.starts[s + 1] - first - 1;
    rows.push_back(hidden.narrow(0, first, n));
    targets.push_back(batch.tokens.narrow(0, first + 1, n));
  }
  (-TokenLogprobs((*model)->view(), at::cat(rows), at::cat(targets)).logprobs.mean()).backward();
  for (const auto& [name, parameter] : (*model)->parameters()) {
    EXPECT_LT(Relative(parameter.grad(), Expected("grad." + name)), 1e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, CudaTrainGolden, testing::ValuesIn(GoldenDenseModels()),
                         GoldenName);

class CudaTrain : public testing::TestWithParam<ModelFamily> {
 protected:
  static constexpr int kVocabulary = Sized(5003, 1003);  // no multiple of 4

  static ModelConfig Config() {
    ModelConfig config;
    config.vocab_size = kVocabulary;
    config.hidden_size = Sized(448, 192);
    config.intermediate_size = Sized(640, 256);
    config.num_layers = Sized(3, 2);
    config.num_heads = 14;
    config.num_kv_heads = 2;
    config.head_dim = 64;
    config.max_position_embeddings = 1024;
    config.initializer_range = 0.05;
    config.tie_word_embeddings = true;
    TakeFormOf(GetParam(), config);
    // Near the width of a head, as in published models: scores that are much larger make bfloat16
    // round gradients by more than the bounds.
    if (config.query_scalar > 0) config.query_scalar = static_cast<double>(config.head_dim - 4);
    return config;
  }
};

TEST_P(CudaTrain, Bfloat16LossAndGradientsAreNearThoseOfFloat32) {
  SKIP_WITHOUT_GPU();
  auto cpu = PolicyWeights::NewRandom(Config(), 3);
  ASSERT_TRUE(cpu.ok());
  auto gpu = MovedWeights(*cpu, kTestDevice, at::kFloat);
  ASSERT_TRUE(gpu.ok());
  std::vector<std::vector<int32_t>> sequences;
  for (int s = 0; s < Sized(5, 3); ++s) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 40 + s * Sized(67, 27); ++i)
      ids.push_back((i * 131 + s * 977 + i * i) % kVocabulary);
    sequences.push_back(ids);
  }
  auto plain = TrainableModel::FromWeights(**cpu);
  auto fast = TrainableModel::FromWeights(**gpu);
  ASSERT_TRUE(plain.ok() && fast.ok());
  const PackedBatch there = Pack(sequences, kTestDevice), here = Pack(sequences);
  const at::Tensor expected = LossWithEntropy((*plain)->view(), (*plain)->Forward(here), here);
  const at::Tensor loss =
      LossWithEntropy((*fast)->view(), (*fast)->Forward(there, at::kBFloat16), there);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 0.01);
  expected.backward();
  loss.backward();
  double worst = 0;
  for (const auto& [name, parameter] : (*fast)->parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    const double error = Relative(parameter.grad(), (*plain)->parameters().at(name).grad());
    // A key's bias moves all scores of a query alike, which softmax does not see: pure rounding.
    if (name.ends_with("k_proj.bias")) continue;
    EXPECT_LT(error, 0.05) << name;
    worst = std::max(worst, error);
  }
  std::printf("largest relative error of a gradient: %.3f\n", worst);
  EXPECT_NEAR(GradNorm((*fast)->parameters()) / GradNorm((*plain)->parameters()), 1.0, 0.02);
}

TEST_P(CudaTrain, RecomputedLayersGiveTheSameGradients) {
  SKIP_WITHOUT_GPU();
  auto gpu = MovedWeights(*PolicyWeights::NewRandom(Config(), 4), kTestDevice, at::kFloat);
  ASSERT_TRUE(gpu.ok());
  std::vector<int32_t> ids;
  for (int i = 0; i < Sized(300, 90); ++i) ids.push_back((i * 131 + i * i) % kVocabulary);
  const PackedBatch batch = Pack({ids, {7, 8, 9}}, kTestDevice);
  auto kept = TrainableModel::FromWeights(**gpu), again = TrainableModel::FromWeights(**gpu);
  ASSERT_TRUE(kept.ok() && again.ok());
  LossWithEntropy((*kept)->view(), (*kept)->Forward(batch, at::kBFloat16), batch).backward();
  LossWithEntropy((*again)->view(), (*again)->Forward(batch, at::kBFloat16, true), batch, true)
      .backward();
  for (const auto& [name, parameter] : (*again)->parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    if (name.ends_with("k_proj.bias")) continue;
    // Attention's backward pass adds in an order that differs from run to run, and probabilities
    // that are kept are rounded.
    EXPECT_LT(Relative(parameter.grad(), (*kept)->parameters().at(name).grad()), 0.02) << name;
  }
}

// Four episodes of one prompt, each whole and with the prompt there once.
TEST_P(CudaTrain, ASharedPromptGivesTheGradientsOfEachOfItsOwn) {
  SKIP_WITHOUT_GPU();
  auto gpu = MovedWeights(*PolicyWeights::NewRandom(Config(), 5), kTestDevice, at::kFloat);
  ASSERT_TRUE(gpu.ok());
  const auto ids = [](int seed, int count) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back((i * 131 + seed * 977 + i * i) % kVocabulary);
    return out;
  };
  constexpr int kPrompt = Sized(150, 50);
  const std::vector<int32_t> prompt = ids(0, kPrompt);
  std::vector<std::vector<int32_t>> wholes, parts{prompt};
  std::vector<int64_t> positions, whole_rows, shared_rows;
  for (int64_t p = 0; p < kPrompt; ++p) positions.push_back(p);
  PackedBatch shared;
  shared.parents.push_back(-1);
  int64_t start = 0;
  for (int s = 1; s <= 4; ++s) {
    const std::vector<int32_t> rest = ids(s, Sized(37, 9) * s);
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), rest.begin(), rest.end());
    for (int64_t p = kPrompt; p < static_cast<int64_t>(whole.size()); ++p) {
      shared_rows.push_back(static_cast<int64_t>(positions.size()));
      positions.push_back(p);
      whole_rows.push_back(start + p);
    }
    start += static_cast<int64_t>(whole.size());
    wholes.push_back(whole);
    parts.push_back(rest);
    shared.parents.push_back(0);
  }
  const std::vector<int64_t> parents = shared.parents;
  shared = Pack(parts, kTestDevice);
  shared.parents = parents;
  shared.positions = at::tensor(positions, at::kLong).to(at::Device(kTestDevice));
  auto one = TrainableModel::FromWeights(**gpu), each = TrainableModel::FromWeights(**gpu);
  ASSERT_TRUE(one.ok() && each.ok());
  const auto rows = [](const at::Tensor& hidden, const std::vector<int64_t>& which) {
    return hidden.index_select(0, at::tensor(which, at::kLong).to(at::Device(kTestDevice)))
        .to(at::kFloat);
  };
  const at::Tensor mine = rows((*one)->Forward(shared, at::kBFloat16), shared_rows);
  const at::Tensor theirs =
      rows((*each)->Forward(Pack(wholes, kTestDevice), at::kBFloat16), whole_rows);
  EXPECT_LT(Relative(mine, theirs), 0.01);
  at::manual_seed(1);
  const at::Tensor weighing = at::randn(mine.sizes(), mine.options());
  (mine * weighing).sum().backward();
  (theirs * weighing).sum().backward();
  for (const auto& [name, parameter] : (*one)->parameters()) {
    if (!parameter.grad().defined() || name.ends_with("k_proj.bias")) continue;
    EXPECT_LT(Relative(parameter.grad(), (*each)->parameters().at(name).grad()), 0.02) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaTrain,
                         testing::Values(ModelFamily::kQwen2, ModelFamily::kQwen3,
                                         ModelFamily::kOlmo2, ModelFamily::kGemma3));

// One number after the other and four at once.
TEST(CudaAdamW, MovesParametersAsTheFormulaSays) {
  SKIP_WITHOUT_GPU();
  for (const int64_t count : {1001, 1004}) {
    at::manual_seed(1);
    const at::Tensor start = at::randn({count}), gradient = at::randn({count});
    NamedTensors tensors{{"p", start.clone().to(at::Device(kTestDevice))}};
    at::Tensor& p = tensors.at("p");
    p.set_requires_grad(true);
    p.mutable_grad() = gradient.to(p.device());
    AdamW optimizer({.weight_decay = 0.1});
    at::Tensor expected = start.to(at::kDouble);
    const at::Tensor g = gradient.to(at::kDouble) * 0.5;
    at::Tensor m = at::zeros_like(expected), v = at::zeros_like(expected);
    const AdamWOptions defaults;
    for (int step = 1; step <= 3; ++step) {
      optimizer.Step(tensors, 1e-2, 0.5);
      m = defaults.beta1 * m + (1 - defaults.beta1) * g;
      v = defaults.beta2 * v + (1 - defaults.beta2) * g * g;
      const at::Tensor m_hat = m / (1 - std::pow(defaults.beta1, step));
      const at::Tensor v_hat = v / (1 - std::pow(defaults.beta2, step));
      expected = expected * (1 - 1e-2 * 0.1) - 1e-2 * m_hat / (v_hat.sqrt() + defaults.eps);
    }
    EXPECT_LT(Relative(p, expected), 1e-6);
  }
}

TEST(CudaHostCopy, BringsEveryNumberInPieces) {
  SKIP_WITHOUT_GPU();
  // More than two pieces of pinned memory, and a last one that is not full.
  const at::Tensor there = at::arange(5'000'001, at::TensorOptions().device(kTestDevice));
  EXPECT_TRUE(at::equal(HostCopy(there), at::arange(5'000'001)));
  EXPECT_TRUE(at::equal(HostCopy(there.narrow(0, 3, 10).view({2, 5}).t(), at::kDouble),
                        at::arange(3, 13).view({2, 5}).t().to(at::kDouble)));
  EXPECT_EQ(HostCopy(at::empty({0}, there.options())).numel(), 0);
}

TEST(CudaSnapshot, LiesAsTheEngineWantsIt) {
  SKIP_WITHOUT_GPU();
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_position_embeddings = 64;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  auto weights = MovedWeights(*PolicyWeights::NewRandom(config, 1), kTestDevice, at::kFloat);
  ASSERT_TRUE(weights.ok());
  auto model = TrainableModel::FromWeights(**weights);
  ASSERT_TRUE(model.ok());
  auto snapshot = (*model)->Snapshot(Dtype::kBF16);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  const NamedTensors& tensors = (*snapshot)->tensors();
  const at::Tensor& q = tensors.at("model.layers.1.self_attn.q_proj.weight");
  const at::Tensor& k = tensors.at("model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(static_cast<char*>(k.data_ptr()) - static_cast<char*>(q.data_ptr()),
            static_cast<long>(q.nbytes()));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_LT(Relative(tensor, (*weights)->tensors().at(name)), 4e-3) << name;
  }
}

}  // namespace
}  // namespace tidemill
