// The network against values computed by transformers and PEFT.
#include "model/torch/aten.h"

#include "model/torch/model.h"

#include "model/layer_plan.h"
#include "model/random_weights.h"
#include "model/torch/attention.h"
#include "model/torch/draw_supports.h"
#include "testing/golden.h"
#include "testing/test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

class ModelGolden : public GoldenModelTest {};

TEST_P(ModelGolden, LogitsOfPackedSequencesAreThoseOfTransformers) {
  const PackedBatch batch = Pack(sequences_);
  const at::Tensor hidden = ForwardHidden(weights_->config(), weights_->view(), batch);
  const at::Tensor logits = Logits(weights_->view(), hidden);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const int64_t first = batch.starts[i], n = batch.starts[i + 1] - first;
    EXPECT_LT(
        MaxDifference(logits.narrow(0, first, n), Expected("seq" + std::to_string(i) + ".logits")),
        2e-4);
    const at::Tensor logprobs = TokenLogprobs(weights_->view(), hidden.narrow(0, first, n - 1),
                                              batch.tokens.narrow(0, first + 1, n - 1), 1.0, 7)
                                    .logprobs;
    EXPECT_LT(MaxDifference(logprobs, Expected("seq" + std::to_string(i) + ".logprobs")), 1e-4);
  }
}

TEST_P(ModelGolden, GreedyTokensAreThoseOfTransformers) {
  const std::vector<int32_t> greedy = Ids(Expected("greedy.ids"));
  std::vector<int32_t> ids = sequences_[0];
  while (ids.size() < greedy.size()) {
    const at::Tensor hidden = ForwardHidden(weights_->config(), weights_->view(), Pack({ids}));
    ids.push_back(
        static_cast<int32_t>(Logits(weights_->view(), hidden.narrow(0, hidden.size(0) - 1, 1))
                                 .argmax()
                                 .item<int64_t>()));
  }
  EXPECT_EQ(ids, greedy);
}

TEST_P(ModelGolden, GradientsAreThoseOfTransformers) {
  auto model = TrainableModel::FromWeights(*weights_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const PackedBatch batch = Pack(sequences_);
  MeanLoss((*model)->view(), (*model)->Forward(batch), batch, 16).backward();
  size_t compared = 0;
  for (const auto& [name, parameter] : (*model)->parameters()) {
    const at::Tensor& expected = Expected("grad." + name);
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_LT(MaxDifference(parameter.grad(), expected),
              1e-3 * expected.abs().max().item<double>() + 1e-8)
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, ExpectedTensors(weights_->config()).size());
}

class LoraGolden : public GoldenAdapterTest {};

TEST_P(LoraGolden, LogitsAreThoseOfPeftAppliedAndMerged) {
  EXPECT_LT(MaxDifference(LogitsOf(*adapted_), lora_logits_), 2e-4);
  auto merged = PolicyWeights::Merged(adapted_);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_EQ((*merged)->adapter(), nullptr);
  EXPECT_LT(MaxDifference(LogitsOf(**merged), lora_logits_), 2e-4);
  // The base is as it was.
  EXPECT_LT(MaxDifference(LogitsOf(*weights_), Expected("seq0.logits")), 2e-4);
}

TEST_P(LoraGolden, AdapterSurvivesWritingAndReading) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(SaveAdapter(*adapted_->adapter(), dir.path()).ok());
  auto read = LoadAdapter(dir.path(), weights_->config());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ((*read)->tensors.size(), adapted_->adapter()->tensors.size());
  for (const auto& [name, tensor] : (*read)->tensors) {
    EXPECT_TRUE(at::equal(tensor, adapted_->adapter()->tensors.at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ModelGolden, testing::ValuesIn(GoldenModels()), GoldenName);
INSTANTIATE_TEST_SUITE_P(Golden, LoraGolden, testing::ValuesIn(GoldenModels()), GoldenName);

TEST(GoldenFolder, HoldsModels) {
  EXPECT_GE(GoldenModels().size(), 3u) << GoldenDir();
}

// Heads that are not their share of the width.
ModelConfig SmallConfig() {
  ModelConfig config = TinyConfig(ModelFamily::kQwen3);
  config.head_dim = 10;
  return config;
}

TEST(PolicyWeights, NewOnesDependOnTheSeedAlone) {
  const ModelConfig config = SmallConfig();
  auto a = PolicyWeights::NewRandom(config, 5), b = PolicyWeights::NewRandom(config, 5);
  auto c = PolicyWeights::NewRandom(config, 6);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  EXPECT_TRUE(at::equal((*a)->tensors().at(name), (*b)->tensors().at(name)));
  EXPECT_FALSE(at::equal((*a)->tensors().at(name), (*c)->tensors().at(name)));
  EXPECT_NEAR((*a)->tensors().at(name).std().item<double>(), config.initializer_range, 2e-3);
  EXPECT_EQ((*a)->tensors().at("model.norm.weight").sum().item<double>(), config.hidden_size);
}

TEST(PolicyWeights, SurviveWritingAndReadingAlsoInBfloat16) {
  const TemporaryDirectory dir;
  auto weights = PolicyWeights::NewRandom(SmallConfig(), 5);
  ASSERT_TRUE(weights.ok());
  ASSERT_TRUE((*weights)->Save(dir.path()).ok());
  auto read = PolicyWeights::Load(dir.path());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  for (const auto& [name, tensor] : (*weights)->tensors()) {
    EXPECT_TRUE(at::equal(tensor, (*read)->tensors().at(name))) << name;
  }
  auto half = PolicyWeights::Load(dir.path(), {.device = "cpu", .dtype = Dtype::kBF16});
  ASSERT_TRUE(half.ok()) << half.status().ToString();
  EXPECT_EQ((*half)->config().dtype, Dtype::kBF16);
  const PackedBatch batch = Pack({{1, 2, 3, 4, 5}, {9, 8}});
  const at::Tensor wide = ForwardHidden((*read)->config(), (*read)->view(), batch);
  const at::Tensor narrow = ForwardHidden((*half)->config(), (*half)->view(), batch);
  EXPECT_EQ(narrow.scalar_type(), at::kFloat) << "a CPU multiplies bfloat16 in float32";
  EXPECT_LT(MaxDifference(wide, narrow), 0.1);
}

TEST(PolicyWeights, AreWidenedExactlyWhateverTheNumberOfThreads) {
  ModelConfig config = SmallConfig();
  config.vocab_size = 70'000;  // its embedding is read in several pieces
  for (const Dtype stored : {Dtype::kBF16, Dtype::kF16}) {
    const TemporaryDirectory dir;
    config.dtype = stored;
    ASSERT_TRUE(WriteRandomModel(config, 5, 2, dir.path()).ok());
    const TensorFiles files = TensorFiles::OpenModel(dir.path()).value();
    for (const int threads : {1, 3}) {
      auto read = PolicyWeights::Load(dir.path(), {"cpu", Dtype::kF32, threads});
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      for (const TensorView& view : files.tensors()) {
        const at::Tensor expected = CopyToTensor(view)->to(at::kFloat);
        EXPECT_TRUE(at::equal((*read)->tensors().at(view.name), expected)) << view.name;
      }
    }
  }
  const auto drawn = PolicyWeights::NewRandom(config, 5, Dtype::kBF16);
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ((*drawn)->config().dtype, Dtype::kBF16);
}

TEST(PolicyWeights, OfEveryFamilySurviveWritingAndReadingAndMultiplyByOneAtFirst) {
  for (const ModelFamily family : AllFamilies()) {
    SCOPED_TRACE(ModelFamilyName(family));
    const TemporaryDirectory dir;
    const ModelConfig config = TinyConfig(family);
    const auto weights = PolicyWeights::NewRandom(config, 5);
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    ASSERT_TRUE((*weights)->Save(dir.path()).ok());
    const auto read = PolicyWeights::Load(dir.path());
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(ModelConfigJson((*read)->config()), ModelConfigJson(config));
    for (const auto& [name, tensor] : (*weights)->tensors()) {
      EXPECT_TRUE(at::equal(tensor, (*read)->tensors().at(name))) << name;
    }
    const double offset = PlanDecoder(config).norm_offset;
    EXPECT_EQ((*weights)->tensors().at("model.norm.weight").sum().item<double>(),
              (1 - offset) * static_cast<double>(config.hidden_size));
    EXPECT_EQ(config.ParameterCount(), [&] {
      int64_t count = 0;
      for (const auto& [name, tensor] : (*weights)->tensors()) count += tensor.numel();
      return count;
    }());
  }
}

TEST(PolicyWeights, RefuseTensorsThatDoNotFitByName) {
  const ModelConfig config = SmallConfig();
  auto weights = PolicyWeights::NewRandom(config, 5);
  ASSERT_TRUE(weights.ok());
  NamedTensors missing = (*weights)->tensors();
  missing.erase("model.norm.weight");
  EXPECT_NE(
      PolicyWeights::FromTensors(config, missing).status().message().find("model.norm.weight"),
      std::string::npos);
  NamedTensors misshapen = (*weights)->tensors();
  misshapen["model.norm.weight"] = at::ones({3});
  EXPECT_NE(PolicyWeights::FromTensors(config, misshapen).status().message().find("[3]"),
            std::string::npos);
  NamedTensors extra = (*weights)->tensors();
  extra["model.other"] = at::ones({3});
  EXPECT_NE(PolicyWeights::FromTensors(config, extra).status().message().find("model.other"),
            std::string::npos);
}

TEST(PolicyWeights, AMissingDirectoryIsNotFound) {
  EXPECT_EQ(PolicyWeights::Load("/nonexistent/model").status().code(), Code::kNotFound);
}

// The same two sequences, each whole and with what they begin with there once.
class ForwardHiddenOf : public testing::TestWithParam<ModelFamily> {};

TEST_P(ForwardHiddenOf, ASharedBeginningGivesWhatEachOfItsOwnGives) {
  ModelConfig config = TinyConfig(GetParam());
  config.head_dim = 10;
  config.window = 4;  // where there is one it begins within what is shared
  auto weights = PolicyWeights::NewRandom(config, 3);
  ASSERT_TRUE(weights.ok());
  const PackedBatch whole = Pack({{1, 2, 3, 4, 5}, {1, 2, 3, 9, 8, 7, 6}});
  PackedBatch shared = Pack({{1, 2, 3}, {4, 5}, {9, 8, 7, 6}});
  shared.positions = at::tensor({0, 1, 2, 3, 4, 3, 4, 5, 6}, at::kLong);
  shared.parents = {-1, 0, 0};
  const PackedKeys keys = KeysOf(shared);
  EXPECT_EQ(keys.starts, (std::vector<int64_t>{0, 3, 8, 15}));
  EXPECT_EQ(keys.rows, (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7, 8}));
  const at::Tensor whole_rows = at::tensor({2, 3, 4, 7, 8, 9, 10, 11}, at::kLong);
  const at::Tensor shared_rows = at::tensor({2, 3, 4, 2, 5, 6, 7, 8}, at::kLong);
  for (const bool recompute : {false, true}) {
    auto a = TrainableModel::FromWeights(**weights), b = TrainableModel::FromWeights(**weights);
    ASSERT_TRUE(a.ok() && b.ok());
    const at::Tensor expected =
        (*a)->Forward(whole, at::kFloat, recompute).index_select(0, whole_rows);
    const at::Tensor hidden =
        (*b)->Forward(shared, at::kFloat, recompute).index_select(0, shared_rows);
    EXPECT_LT(MaxDifference(hidden, expected), 1e-5);
    at::manual_seed(1);
    const at::Tensor weighing = at::randn(hidden.sizes());
    (hidden * weighing).sum().backward();
    (expected * weighing).sum().backward();
    for (const auto& [name, parameter] : (*b)->parameters()) {
      if (!parameter.grad().defined()) continue;
      const at::Tensor grad = (*a)->parameters().at(name).grad();
      // The sums differ in their order: float32 keeps seven digits of the largest term.
      const double largest = std::max(1.0, grad.abs().max().item<double>());
      EXPECT_LT(MaxDifference(parameter.grad(), grad), 1e-4 * largest) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ForwardHiddenOf,
                         testing::ValuesIn(AllFamilies().begin(), AllFamilies().end()),
                         [](const auto& info) { return std::string(ModelFamilyName(info.param)); });

// Queries of several blocks, some of whose windows begin in the block before.
TEST(PackedCausalAttention, WindowsAreThoseOfAMaskOverEverything) {
  at::manual_seed(3);
  const int64_t n = 700, heads = 4, kv = 2, d = 6;
  for (const int64_t window : {1, 37, 256, 300, 699, 700}) {
    const auto leaf = [&](int64_t count) {
      return at::randn({n, count, d}).set_requires_grad(true);
    };
    const at::Tensor q = leaf(heads), k = leaf(kv), v = leaf(kv),
                     weighing = at::randn({n, heads, d});
    const PackSight sight{
        .starts = {0, 650, n}, .key_starts = {0, 650, n}, .window = window, .scale = 0.3};
    (PackedCausalAttention(q, k, v, sight) * weighing).sum().backward();
    const at::Tensor out = PackedCausalAttention(q, k, v, sight).detach();
    const std::vector<at::Tensor> got = {q.grad().clone(), k.grad().clone(), v.grad().clone()};
    for (const at::Tensor& t : {q, k, v}) t.mutable_grad() = at::Tensor();

    const at::Tensor rows = at::arange(n), sequence = rows.ge(650);
    const at::Tensor apart = rows.unsqueeze(1) - rows.unsqueeze(0);
    const at::Tensor seen = apart.ge(0)
                                .logical_and(apart.lt(window))
                                .logical_and(sequence.unsqueeze(1).eq(sequence.unsqueeze(0)));
    const auto copies = [&](const at::Tensor& x) {
      return x.repeat_interleave(heads / kv, 1).transpose(0, 1);
    };
    const at::Tensor scores = at::bmm(q.transpose(0, 1), copies(k).transpose(1, 2)) * 0.3;
    const at::Tensor p = at::softmax(scores.masked_fill(seen.logical_not(), -INFINITY), -1);
    const at::Tensor expected = at::bmm(p, copies(v)).transpose(0, 1);
    (expected * weighing).sum().backward();
    EXPECT_LT(MaxDifference(out, expected), 1e-5) << window;
    EXPECT_LT(MaxDifference(got[0], q.grad()), 1e-4) << window;
    EXPECT_LT(MaxDifference(got[1], k.grad()), 1e-4) << window;
    EXPECT_LT(MaxDifference(got[2], v.grad()), 1e-4) << window;
  }
}

// Against automatic differentiation of the plain formulas.
TEST(TokenLogprobs, GradientsOfLogprobAndEntropyMatchThePlainFormula) {
  auto weights = PolicyWeights::NewRandom(SmallConfig(), 3);
  ASSERT_TRUE(weights.ok());
  const auto leaf = [](at::Tensor t) { return t.clone().set_requires_grad(true); };
  const double temperature = 0.7;
  at::manual_seed(7);
  const at::Tensor h0 = at::randn({11, 24}) * 0.3, w0 = at::randn({40, 24});
  const at::Tensor targets = at::randint(0, 40, {11}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor gl = at::randn({11}), ge = at::randn({11});

  ModelTensorsView view;
  view.head = leaf(w0);
  const at::Tensor h = leaf(h0);
  const TokenScores scores = TokenLogprobs(view, h, targets, temperature, 4);
  ((scores.logprobs * gl).sum() + (scores.entropy * ge).sum()).backward();

  const at::Tensor hp = leaf(h0.to(at::kDouble)), wp = leaf(w0.to(at::kDouble));
  const at::Tensor all = at::log_softmax(at::matmul(hp, wp.t()) / temperature, 1);
  const at::Tensor logprobs = all.gather(1, targets.unsqueeze(1)).squeeze(1);
  const at::Tensor entropy = -(all.exp() * all).sum(1);
  ((logprobs * gl).sum() + (entropy * ge).sum()).backward();

  EXPECT_LT(MaxDifference(scores.logprobs, logprobs), 1e-4);
  EXPECT_LT(MaxDifference(scores.entropy, entropy), 1e-4);
  EXPECT_LT(MaxDifference(h.grad(), hp.grad()), 1e-4);
  EXPECT_LT(MaxDifference(view.head.grad(), wp.grad()), 1e-4);
}

// Twelve logits 2 sin(1.7 i + 0.3) at temperature 0.8; top_p = 0.9 leaves six of them. The numbers
// are those of float64, from the definition.
TEST(TokenLogprobs, OverASupportAreThoseOfTheRenormalisedDistribution) {
  constexpr int kCount = 12;
  constexpr double kTemperature = 0.8, kLogprob = -1.2855438119897387, kFull = -1.349547269906247;
  constexpr double kEntropy = 1.58400210884551;
  constexpr double kGradient[kCount] = {-0.074508407241,
                                        0.904374776716,
                                        0,
                                        0,
                                        -0.220199521565,
                                        -0.153608081532,
                                        0,
                                        0,
                                        -0.404289095401,
                                        0,
                                        0,
                                        -0.051769670976};
  at::Tensor z = at::empty({1, kCount});
  for (int i = 0; i < kCount; ++i) z[0][i] = 2 * std::sin(1.7 * i + 0.3);
  auto supports = std::make_shared<DrawSupports>();
  supports->sets = {{{0, 2}, {4, 2}, {8, 1}, {11, 1}}};
  supports->set_of = {-1, 0};
  ModelTensorsView view;
  view.head = at::eye(kCount).set_requires_grad(true);
  for (const int64_t chunk : {1, 1024}) {
    const at::Tensor h = at::cat({z, z}).set_requires_grad(true);
    const TokenScores scores =
        TokenLogprobs(view, h, at::ones({2}, at::kLong), kTemperature, chunk, false, supports);
    EXPECT_NEAR(scores.logprobs[0].item<double>(), kFull, 1e-6);
    EXPECT_NEAR(scores.logprobs[1].item<double>(), kLogprob, 1e-6);
    EXPECT_NEAR(scores.entropy[1].item<double>(), kEntropy, 1e-5);
    scores.logprobs[1].backward();
    for (int i = 0; i < kCount; ++i) {
      EXPECT_NEAR(h.grad()[1][i].item<double>(), kGradient[i], 1e-6) << i;
      EXPECT_EQ(h.grad()[0][i].item<double>(), 0) << i;
    }
  }
}

// Against automatic differentiation of the plain formulas.
TEST(TokenLogprobs, GradientsOverSupportsMatchThePlainFormula) {
  const auto leaf = [](at::Tensor t) { return t.clone().set_requires_grad(true); };
  const double temperature = 0.7;
  at::manual_seed(9);
  const at::Tensor h0 = at::randn({11, 24}) * 0.3, w0 = at::randn({41, 24});
  const at::Tensor targets = at::randint(0, 41, {11}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor gl = at::randn({11}), ge = at::randn({11});
  auto supports = std::make_shared<DrawSupports>();
  at::Tensor left_out = at::zeros({11, 41}, at::kBool);
  for (int32_t r = 0; r < 11; ++r) {
    supports->set_of.push_back(r % 4 == 3 ? -1 : r);
    std::vector<TokenRun>& set = supports->sets.emplace_back();
    for (int32_t id = 0; id < 41; ++id) {
      const bool out = (id * 7 + r) % 5 != 0 && id != targets[r].item<int32_t>();
      if (!out) set.push_back({id, 1});
      left_out[r][id] = out && r % 4 != 3;
    }
  }
  ModelTensorsView view;
  view.head = leaf(w0);
  const at::Tensor h = leaf(h0);
  const TokenScores scores = TokenLogprobs(view, h, targets, temperature, 4, false, supports);
  ((scores.logprobs * gl).sum() + (scores.entropy * ge).sum()).backward();

  const at::Tensor hp = leaf(h0.to(at::kDouble)), wp = leaf(w0.to(at::kDouble));
  const at::Tensor logits = at::matmul(hp, wp.t()) / temperature;
  const at::Tensor all = at::log_softmax(logits.masked_fill(left_out, -1e9), 1);
  const at::Tensor logprobs = all.gather(1, targets.unsqueeze(1)).squeeze(1);
  const at::Tensor entropy = -(all.exp() * all).sum(1);
  ((logprobs * gl).sum() + (entropy * ge).sum()).backward();
  EXPECT_LT(MaxDifference(scores.logprobs, logprobs), 1e-4);
  EXPECT_LT(MaxDifference(scores.entropy, entropy), 1e-4);
  EXPECT_LT(MaxDifference(h.grad(), hp.grad()), 1e-4);
  EXPECT_LT(MaxDifference(view.head.grad(), wp.grad()), 1e-4);
}

}  // namespace
}  // namespace tidemill
