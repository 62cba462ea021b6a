// The hand-written pass against libtorch's autograd.
#include "learner/torch/fused_decoder.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include "learner/torch/adamw.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

std::vector<ModelConfig> Shapes() {
  ModelConfig llama = TinyConfig(ModelFamily::kLlama);
  llama.tie_word_embeddings = false;
  ModelConfig qwen2 = TinyConfig(ModelFamily::kQwen2);
  qwen2.head_dim = 22;  // neither a vector nor a part of one
  ModelConfig qwen3 = TinyConfig(ModelFamily::kQwen3);
  qwen3.head_dim = 16;
  qwen3.num_kv_heads = 4;
  ModelConfig wide = TinyConfig(ModelFamily::kQwen3);
  wide.head_dim = 64;
  wide.hidden_size = 50;
  wide.intermediate_size = 33;
  ModelConfig gemma = TinyConfig(ModelFamily::kGemma3);
  gemma.head_dim = 22;
  gemma.hidden_size = 50;
  ModelConfig mistral = TinyConfig(ModelFamily::kMistral);
  mistral.window = 21;  // more than the queries of a vector
  ModelConfig olmo = TinyConfig(ModelFamily::kOlmo2);
  olmo.head_dim = 16;
  ModelConfig biased = TinyConfig(ModelFamily::kOlmo2);
  biased.qkv_bias = biased.output_bias = true;
  ModelConfig narrow = TinyConfig(ModelFamily::kGemma3);
  narrow.window = 1;  // itself alone
  return {llama, qwen2, qwen3, wide, gemma, mistral, olmo, biased, narrow};
}

std::vector<const TrainKernels*> Kernels() {
  std::vector<const TrainKernels*> kernels = {&kTrainKernelsPlain};
  if (&ChooseTrainKernels() != &kTrainKernelsPlain) kernels.push_back(&kTrainKernelsAvx2);
  if (&ChooseTrainKernels() == &kTrainKernelsAvx512) kernels.push_back(&kTrainKernelsAvx512);
  return kernels;
}

// Rows of ids with a common beginning for those of one group.
struct Rows {
  std::vector<std::vector<int32_t>> whole;
  SegmentedPack shared;
  std::vector<int64_t> whole_rows;  // where the tails' tokens stand in each layout
  std::vector<int64_t> shared_rows;
};

Rows MakeRows() {
  Random random(3);
  Rows rows;
  int64_t at = 0;
  for (int group = 0; group < 3; ++group) {
    std::vector<int32_t> prompt(static_cast<size_t>(random.Between(1, 40)));
    for (int32_t& id : prompt) id = static_cast<int32_t>(random.Below(37));
    SegmentedPack& pack = rows.shared;
    const auto parent = static_cast<int64_t>(pack.segments.size());
    const auto length = static_cast<int64_t>(prompt.size());
    pack.segments.push_back({static_cast<int64_t>(pack.tokens.size()), length, -1});
    for (int64_t i = 0; i < length; ++i) {
      pack.tokens.push_back(prompt[static_cast<size_t>(i)]);
      pack.positions.push_back(i);
    }
    for (int member = 0; member < 3; ++member) {
      const int64_t tail = random.Between(1, 35);
      pack.segments.push_back({static_cast<int64_t>(pack.tokens.size()), tail, parent});
      std::vector<int32_t> row = prompt;
      for (int64_t i = 0; i < tail; ++i) {
        row.push_back(static_cast<int32_t>(random.Below(37)));
        rows.shared_rows.push_back(static_cast<int64_t>(pack.tokens.size()));
        rows.whole_rows.push_back(at + length + i);
        pack.tokens.push_back(row.back());
        pack.positions.push_back(length + i);
      }
      at += length + tail;
      rows.whole.push_back(row);
    }
  }
  return rows;
}

at::Tensor Long(const std::vector<int64_t>& values) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong);
}

NamedTensors TakeGradients(TrainableModel& model) {
  NamedTensors gradients;
  for (auto& [name, parameter] : model.parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name;
    gradients[name] = parameter.grad().clone();
  }
  ZeroGrad(model.parameters());
  return gradients;
}

void ExpectClose(const NamedTensors& got, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    const double error = (got.at(name) - tensor).norm().item<double>();
    EXPECT_LE(error, 2e-5 * tensor.norm().item<double>() + 1e-6) << name;
  }
}

TEST(FusedDecoder, GivesWhatAutogradGivesForEveryFamilyAndMachineAlsoWithSharedPrompts) {
  const Rows rows = MakeRows();
  for (const ModelConfig& config : Shapes()) {
    SCOPED_TRACE(std::string(ModelFamilyName(config.family)) + " " +
                 std::to_string(config.head_dim));
    auto model = std::move(TrainableModel::FromWeights(*TinyWeights(config))).value();
    const at::Tensor targets =
        at::randint(37, {static_cast<int64_t>(rows.whole_rows.size())}, at::kLong);
    const at::Tensor weights = at::randn({targets.size(0)});
    const auto loss = [&](const TokenScores& scores) {
      return (scores.logprobs * weights + 0.3 * scores.entropy).mean();
    };
    const at::Tensor hidden =
        model->Forward(Pack(rows.whole)).index_select(0, Long(rows.whole_rows));
    loss(TokenLogprobs(model->view(), hidden, targets, 0.7)).backward();
    const NamedTensors expected = TakeGradients(*model);
    for (const TrainKernels* kernels : Kernels()) {
      SCOPED_TRACE(kernels->name);
      FusedDecoder decoder(*model, *kernels);
      for (int round = 0; round < 2; ++round) {  // the second with buffers that are there
        const at::Tensor got = decoder.Forward(rows.shared, Long(rows.shared_rows));
        EXPECT_TRUE(at::allclose(got, hidden, 1e-4, 1e-4))
            << (got - hidden).abs().max().item<double>();
        got.set_requires_grad(true);
        loss(FusedTokenScores(model->view(), got, targets, 0.7)).backward();
        decoder.Backward(got.grad());
        ExpectClose(TakeGradients(*model), expected);
      }
    }
  }
}

TEST(FusedDecoder, GivesEveryRowWhenNoneIsNamed) {
  const Rows rows = MakeRows();
  auto model = std::move(TrainableModel::FromWeights(*TinyWeights(TinyConfig()))).value();
  FusedDecoder decoder(*model);
  const at::Tensor all = decoder.Forward(rows.shared);
  EXPECT_EQ(all.size(0), static_cast<int64_t>(rows.shared.tokens.size()));
  const at::Tensor some = decoder.Forward(rows.shared, Long(rows.shared_rows));
  EXPECT_TRUE(at::allclose(all.index_select(0, Long(rows.shared_rows)), some, 1e-5, 1e-5));
}

TEST(FusedTokenScores, AgreesWithTheSoftmaxOfTheLogitsAtAnyVocabulary) {
  for (int64_t vocabulary : {3, 16, 37, 160}) {
    ModelConfig config = TinyConfig();
    config.vocab_size = vocabulary;
    const auto weights = TinyWeights(config);
    const at::Tensor hidden = at::randn({11, config.hidden_size}) * 4;
    const at::Tensor targets = at::randint(vocabulary, {11}, at::kLong);
    const TokenScores scores = FusedTokenScores(weights->view(), hidden, targets, 1.3);
    const at::Tensor all = at::log_softmax(Logits(weights->view(), hidden) / 1.3, -1);
    EXPECT_TRUE(
        at::allclose(scores.logprobs, all.gather(1, targets.unsqueeze(1)).squeeze(1), 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(scores.entropy, -(all.exp() * all).sum(1), 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace tidemill
