// An engine on a GPU that reads a shared base and adds an adapter in its products. Skipped where
// there is no GPU.
#include "model/torch/aten.h"

#include "model/torch/adapter_block.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/moved_weights.h"
#include "model/torch/weight_block.h"
#include "testing/engine_check.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using SharedWeights = std::shared_ptr<const PolicyWeights>;

struct AdapterCase {
  const char* name;
  ModelFamily family;
  bool tied;
  bool biases;
  int64_t rank;
  std::vector<std::string> targets;  // empty: all
};

class CudaAdapterEngine : public testing::TestWithParam<AdapterCase> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }

  static ModelConfig Config() {
    ModelConfig config;
    config.vocab_size = 500;
    config.hidden_size = 128;
    config.intermediate_size = 200;
    config.num_layers = 2;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 64;
    config.max_position_embeddings = 256;
    config.initializer_range = 0.1;
    TakeFormOf(GetParam().family, config);
    config.qkv_bias = GetParam().biases;
    config.output_bias = GetParam().biases && GetParam().family != ModelFamily::kQwen2;
    config.mlp_bias = GetParam().biases && GetParam().family == ModelFamily::kLlama;
    config.tie_word_embeddings = GetParam().tied;
    return config;
  }

  // In one block; biases are not zero.
  static SharedWeights Base(Dtype dtype, uint64_t seed = 7) {
    NamedTensors tensors = (*PolicyWeights::NewRandom(Config(), seed))->tensors();
    at::manual_seed(seed);
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with(".bias")) tensor = at::randn_like(tensor) * 0.3;
      if (name.ends_with("norm.weight")) tensor = tensor + at::randn_like(tensor) * 0.1;
    }
    const auto plain = *PolicyWeights::FromTensors(Config(), tensors);
    auto block = CopyWeightBlock(*plain, {.device = kTestDevice, .dtype = dtype});
    TM_CHECK(block.ok(), block.status().message());
    return *block;
  }

  static std::shared_ptr<const LoraAdapter> Adapter(uint64_t seed, int64_t rank,
                                                    double size = 0.15) {
    LoraConfig lora;
    lora.rank = rank;
    lora.alpha = 3 * static_cast<double>(rank);
    lora.target_modules = GetParam().targets;
    if (GetParam().targets.empty()) lora.target_pattern = "all-linear";
    LoraAdapter adapter = **NewAdapter(lora, Config(), seed, kTestDevice);
    at::manual_seed(seed);
    for (auto& [name, tensor] : adapter.tensors) {
      tensor = (at::randn(tensor.sizes()) * size / std::sqrt(static_cast<double>(rank)))
                   .to(tensor.device());
    }
    return std::make_shared<const LoraAdapter>(adapter);
  }
  static SharedWeights With(const SharedWeights& base, std::shared_ptr<const LoraAdapter> adapter) {
    return *PolicyWeights::WithAdapter(base, std::move(adapter));
  }

  static std::vector<TokenId> Prompt(int length, int seed) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back((i * 37 + seed * 101 + 5) % 500);
    return prompt;
  }

  // Mean difference of the last `count` log-probabilities of a turn to those of the same weights in
  // float32 on the CPU, an adapter merged.
  static double MeanGap(const EngineRun& run, SequenceId id, const SharedWeights& weights,
                        size_t count = 1000) {
    const auto plain = *MovedWeights(weights, "cpu", at::kFloat);
    const std::vector<double> all = PlainLogprobs(*plain, run.Tokens(id), 1.0);
    const std::vector<float>& mine = run.Turn(id).logprobs;
    count = std::min(count, mine.size());
    double sum = 0;
    for (size_t i = 1; i <= count; ++i) {
      sum += std::abs(mine[mine.size() - i] - all[all.size() - i]) / static_cast<double>(count);
    }
    return sum;
  }

  static at::Tensor BytesOf(const SharedWeights& weights) {
    std::vector<at::Tensor> flat;
    for (const auto& [name, tensor] : weights->tensors()) flat.push_back(tensor.view(-1));
    return at::cat(flat).cpu();
  }
};

TEST_P(CudaAdapterEngine, HasTheLogprobsOfMergedWeights) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const SharedWeights base = Base(dtype);
    const SharedWeights weights = With(base, Adapter(3, GetParam().rank));
    EngineRun run(weights, {.max_context = 128, .max_running = 4, .prefill_chunk = 11});
    for (SequenceId id = 1; id <= 3; ++id) {
      run.Add(id, Prompt(9 + 7 * static_cast<int>(id), static_cast<int>(id)),
              {.max_new_tokens = 12, .seed = id});
    }
    run.Finish();
    for (SequenceId id = 1; id <= 3; ++id) {
      const double gap = MeanGap(run, id, weights);
      EXPECT_LT(gap, dtype == Dtype::kF32 ? 1e-4 : 0.03) << "sequence " << id;
      EXPECT_GT(MeanGap(run, id, base), 0.1) << "an adapter that changes nothing shows nothing";
    }
  }
}

TEST_P(CudaAdapterEngine, TakesANewAdapterBetweenStepsAndLeavesTheBaseAsItIs) {
  const SharedWeights base = Base(Dtype::kF32);
  const at::Tensor before = BytesOf(base).clone();
  const SharedWeights first = With(base, Adapter(3, GetParam().rank));
  const SharedWeights second = With(base, Adapter(4, GetParam().rank));
  EngineRun run(first, {.max_context = 128, .max_running = 4, .prefill_chunk = 64});
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 16, .seed = 1});
  for (int step = 0; step < 6; ++step) run.Step();
  ASSERT_TRUE(run.engine().SwapWeights(second, 2, CacheOnSwap::kRebuild).ok());
  run.Finish();
  ASSERT_EQ(run.Turn(1).versions.size(), 2u);
  EXPECT_LT(MeanGap(run, 1, second, run.Turn(1).versions[1].tokens), 1e-4);
  EXPECT_GT(MeanGap(run, 1, first, run.Turn(1).versions[1].tokens), 0.1);
  // The base alone is an adapter of zeros.
  ASSERT_TRUE(run.engine().SwapWeights(base, 3, CacheOnSwap::kRebuild).ok());
  run.Add(2, Prompt(20, 2), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 2, base), 1e-4);
  EXPECT_TRUE(at::equal(before, BytesOf(base)));
}

TEST_P(CudaAdapterEngine, TakesASmallerAdapterAndRefusesWhatDoesNotFit) {
  const SharedWeights base = Base(Dtype::kF32);
  const SharedWeights first = With(base, Adapter(3, GetParam().rank));
  EngineRun run(first, {.max_context = 128, .max_running = 4});
  const SharedWeights larger = With(base, Adapter(4, GetParam().rank + 1));
  const Status refused = run.engine().SwapWeights(larger, 2, CacheOnSwap::kRebuild);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("rank " + std::to_string(GetParam().rank + 1)),
            std::string::npos)
      << refused.message();
  const SharedWeights elsewhere = With(Base(Dtype::kF32), first->adapter());
  EXPECT_EQ(run.engine().SwapWeights(elsewhere, 2, CacheOnSwap::kRebuild).code(), Code::kInvalid);
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 1, first), 1e-4) << "the older adapter stays";
  if (GetParam().rank == 1) return;
  const SharedWeights smaller = With(base, Adapter(5, GetParam().rank - 1));
  ASSERT_TRUE(run.engine().SwapWeights(smaller, 3, CacheOnSwap::kRebuild).ok());
  run.Add(2, Prompt(20, 1), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 2, smaller), 1e-4);
}

// What would be a copy of the base is not there: the engine sees it change.
TEST_P(CudaAdapterEngine, ReadsTheBaseWhereItLies) {
  const SharedWeights base = Base(Dtype::kF32);
  const SharedWeights weights = With(base, Adapter(3, GetParam().rank));
  EngineRun run(weights, {.max_context = 128, .max_running = 4});
  base->view().norm.mul_(0.25);
  WaitForStream(base->view().norm);
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 1, weights), 1e-4);
}

TEST_P(CudaAdapterEngine, ReadsAFixedBaseWithoutAnAdapterWhereItLies) {
  const SharedWeights base = Base(Dtype::kF32);
  EngineRun run(base, {.max_context = 128, .max_running = 4, .fixed_base = true});
  base->view().norm.mul_(0.25);
  WaitForStream(base->view().norm);
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 1, base), 1e-4);
  EXPECT_TRUE(run.engine().SwapWeights(base, 2, CacheOnSwap::kRebuild).ok());
  const SharedWeights adapted = With(base, Adapter(3, GetParam().rank));
  EXPECT_EQ(run.engine().SwapWeights(adapted, 3, CacheOnSwap::kRebuild).code(), Code::kInvalid);
}

// Weights that do not lie in one block are merged into a copy.
TEST_P(CudaAdapterEngine, MergesIntoACopyWhereTheBaseIsNotInABlock) {
  const SharedWeights base = *MovedWeights(Base(Dtype::kF32), kTestDevice, at::kFloat);
  const SharedWeights weights = With(base, Adapter(3, GetParam().rank));
  EngineRun run(weights, {.max_context = 128, .max_running = 4});
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 8, .seed = 1});
  run.Finish();
  EXPECT_LT(MeanGap(run, 1, weights), 1e-4);
  ASSERT_TRUE(
      run.engine()
          .SwapWeights(With(base, Adapter(4, GetParam().rank + 1)), 2, CacheOnSwap::kRebuild)
          .ok());
}

INSTANTIATE_TEST_SUITE_P(
    Adapters, CudaAdapterEngine,
    testing::Values(AdapterCase{"Rank16", ModelFamily::kQwen2, true, true, 16, {}},
                    AdapterCase{"Rank3Untied", ModelFamily::kQwen2, false, true, 3, {}},
                    AdapterCase{"Rank8QkNorm", ModelFamily::kQwen3, true, false, 8, {}},
                    AdapterCase{"Rank5Biases", ModelFamily::kLlama, false, true, 5, {}},
                    AdapterCase{"Rank4NormsBehind", ModelFamily::kOlmo2, false, true, 4, {}},
                    AdapterCase{"Rank2Windows", ModelFamily::kGemma3, true, false, 2, {}},
                    AdapterCase{"Rank1SomeModules",
                                ModelFamily::kQwen2,
                                true,
                                true,
                                1,
                                {"q_proj", "v_proj", "down_proj"}},
                    AdapterCase{
                        "Rank4OneProduct", ModelFamily::kQwen3, false, false, 4, {"o_proj"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tidemill
