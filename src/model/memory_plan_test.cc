// The formulas against memory that was measured on one H200 (139.8 GiB); docs/gpu.md has the
// figures.
#include "model/memory_plan.h"

#include <gtest/gtest.h>

#include "testing/test_folders.h"

namespace tidemill {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kH200 = 1398 * kGiB / 10;

struct Shape {
  int64_t layers, width, feed_forward, heads, kv_heads, head_dim, vocabulary;
  bool tied;
};

ModelConfig Qwen2(const Shape& s) {
  ModelConfig c;
  c.family = ModelFamily::kQwen2;
  c.num_layers = s.layers;
  c.hidden_size = s.width;
  c.intermediate_size = s.feed_forward;
  c.num_heads = s.heads;
  c.num_kv_heads = s.kv_heads;
  c.head_dim = s.head_dim;
  c.vocab_size = s.vocabulary;
  c.tie_word_embeddings = s.tied;
  c.max_position_embeddings = 32768;
  c.qkv_bias = true;
  return c;
}

ModelConfig Half() {
  return Qwen2({24, 896, 4864, 14, 2, 64, 151936, true});
}
ModelConfig OneAndAHalf() {
  return Qwen2({28, 1536, 8960, 12, 2, 128, 151936, true});
}
ModelConfig Seven() {
  return Qwen2({28, 3584, 18944, 28, 4, 128, 152064, false});
}
ModelConfig ThirtyTwo() {
  return Qwen2({64, 5120, 27648, 40, 8, 128, 152064, false});
}

uint64_t Of(const MemoryPlan& plan, const std::string& part) {
  uint64_t sum = 0;
  for (const PlanRow& row : plan.rows) sum += row.part == part ? row.bytes : 0;
  return sum;
}

PlanInput Training(ModelConfig model, int64_t token_budget) {
  PlanInput input;
  input.model = std::move(model);
  input.memory_bytes = kH200;
  input.token_budget = token_budget;
  return input;
}

TEST(MemoryPlan, CountsTheParametersThatTheModelHas) {
  EXPECT_NEAR(static_cast<double>(Half().ParameterCount()), 494e6, 1e6);
  EXPECT_NEAR(static_cast<double>(Seven().ParameterCount()), 7616e6, 1e6);
}

// "Training" of docs/gpu.md: peak memory of the learner, 32.8 and 53.1 GB.
TEST(MemoryPlan, TheLearnersPeakIsWithinATenthOfWhatWasMeasured) {
  for (const auto& [tokens, measured] : {std::pair{16384, 32.8e9}, std::pair{32768, 53.1e9}}) {
    PlanInput input = Training(Half(), tokens);
    input.generates = false;
    EXPECT_NEAR(static_cast<double>(Of(PlanMemory(input), "learner")) / measured, 1, 0.1) << tokens;
  }
}

// 64 sequences of 1,024 tokens beside the learner.
MemoryPlan BesideTheEngine(PlanInput input) {
  input.recompute = true;
  input.cache_bytes = 64 * 1024 * CacheTokenBytes(input.model, true);
  input.max_context = 1024;
  return PlanMemory(input);
}

TEST(MemoryPlan, WithAnAdapterTheFrozenWeightsAreThereOnce) {
  PlanInput input = Training(Seven(), 16384);
  input.lora_rank = 16;
  const MemoryPlan plan = BesideTheEngine(input);
  const auto weights = static_cast<uint64_t>(2 * Seven().ParameterCount());
  EXPECT_EQ(plan.rows.front().bytes, weights);
  EXPECT_LT(Of(plan, "engine"), weights) << "keys and values, no weights";
  EXPECT_LT(plan.total_bytes, 56 * kGiB);
  EXPECT_FALSE(plan.block_moments) << "there are few";
  input.model = ThirtyTwo();
  EXPECT_LT(BesideTheEngine(input).total_bytes, 121 * kGiB);
}

TEST(MemoryPlan, VersionsOfAnAdapterShareOneBase) {
  PlanInput input = Training(OneAndAHalf(), 16384);
  input.lora_rank = 16;
  input.cache_bytes = kGiB;
  for (const bool gpu : {false, true}) {
    input.gpu = gpu;
    input.versions = 1;
    const uint64_t one = PlanMemory(input).total_bytes;
    input.versions = 4;
    const uint64_t more = PlanMemory(input).total_bytes - one;
    const auto number = gpu ? 2 : 4;
    const auto adapter = static_cast<uint64_t>(number * AdapterParameters(OneAndAHalf(), 16));
    EXPECT_GT(more, 3 * adapter);
    EXPECT_LT(more, 3 * 3 * adapter);
  }
}

// 128 experts, 8 of them for a token: the frozen weights of all are there, the activations of those
// chosen.
TEST(MemoryPlan, AnAdapterOnThirtyBillionWeightsOfExpertsFits) {
  PlanInput input = Training(ReadModelConfig(SourceDir() + "/examples/shapes/30b-a3b").value(), 0);
  input.lora_rank = 16;
  const MemoryPlan plan = BesideTheEngine(input);
  EXPECT_TRUE(plan.fits());
  EXPECT_EQ(plan.rows.front().bytes, static_cast<uint64_t>(2 * input.model.ParameterCount()));
  EXPECT_GE(plan.token_budget, 4096);
  // On experts an adapter has as many ranks as there are experts.
  const int64_t attention = 48 * 16 * (2 * (2048 + 4096) + 2 * (2048 + 512));
  const int64_t experts = 48 * 128 * 16 * (2048 + 2 * 768 + 768 + 2048);
  EXPECT_EQ(AdapterParameters(input.model, 16), attention);
  EXPECT_EQ(AdapterParameters(input.model, 16, true), attention + experts);
  PlanInput all = input;
  all.lora_experts = true;
  EXPECT_GT(BesideTheEngine(all).total_bytes, plan.total_bytes + 18 * uint64_t(experts));
}

TEST(MemoryPlan, OfACpuEngineInEightBitsIsAQuarterOfItsMatrices) {
  PlanInput input = Training(OneAndAHalf(), 1024);
  input.gpu = false;
  input.trains = false;
  const auto packed = [&](bool int8) {
    input.int8_weights = int8;
    return Of(PlanMemory(input), "engine");
  };
  const auto matrices = static_cast<double>(input.model.ParameterCount());  // the tied head is one
  EXPECT_NEAR(static_cast<double>(packed(false) - packed(true)), 3 * matrices, 0.4 * matrices);
}

TEST(MemoryPlan, EveryPolicyOfARunCounts) {
  for (const bool gpu : {true, false}) {
    PlanInput one{.model = Half(), .gpu = gpu, .lora_rank = 16};
    PlanInput several = one;
    several.policies = {
        {"coder", 16, true}, {"planner", 16, true}, {"judge", 8, false}, {"default", 0, false}};
    const MemoryPlan alone = PlanMemory(one), all = PlanMemory(several);
    const auto numbers = static_cast<uint64_t>(AdapterParameters(one.model, 16));
    const auto frozen = static_cast<uint64_t>(AdapterParameters(one.model, 8));
    // Weights, gradients, two moments, what is published and the engine's copy; of one that is not
    // trained the last, and what it was read to.
    EXPECT_EQ(all.total_bytes - alone.total_bytes, (20 + 8) * numbers + 8 * frozen) << gpu;
  }
}

TEST(MemoryPlan, AllOfSevenBillionWeightsFitWithMomentsInBytes) {
  const PlanInput input = Training(Seven(), 16384);
  const MemoryPlan seven = BesideTheEngine(input);
  EXPECT_TRUE(seven.fits());
  EXPECT_TRUE(seven.block_moments);
  EXPECT_LT(seven.total_bytes, 121 * kGiB);
  PlanInput wide = input;
  wide.block_moments = false;
  const MemoryPlan none = BesideTheEngine(wide);
  EXPECT_FALSE(none.fits());
  bool named = false;
  for (const auto& choice : none.would_fit)
    named |= choice.settings == "learner.moments = \"int8\"";
  EXPECT_TRUE(named);
  const MemoryPlan small = PlanMemory(Training(OneAndAHalf(), 16384));
  EXPECT_TRUE(small.fits());
  EXPECT_FALSE(small.block_moments);
  EXPECT_GT(small.cache_bytes, 20 * kGiB) << "about a quarter of what is free";
}

TEST(MemoryPlan, WhatDoesNotFitIsRefusedWithWhatWould) {
  PlanInput input = Training(Seven(), 16384);
  input.memory_bytes = 80 * kGiB;
  const MemoryPlan plan = PlanMemory(input);
  EXPECT_FALSE(plan.fits());
  ASSERT_FALSE(plan.would_fit.empty());
  EXPECT_NE(plan.would_fit.back().settings.find("learner.lora_rank = 16"), std::string::npos);
  for (const auto& choice : plan.would_fit) EXPECT_LE(choice.total_bytes, input.memory_bytes);
}

TEST(MemoryPlan, ChoosesTheBudgetTheCacheAndRecomputation) {
  PlanInput input = Training(Seven(), 0);
  input.lora_rank = 16;
  const MemoryPlan open = PlanMemory(input);
  EXPECT_TRUE(open.fits());
  EXPECT_FALSE(open.recompute);
  EXPECT_EQ(open.token_budget, 16384);
  input.memory_bytes = 40 * kGiB;
  const MemoryPlan tight = PlanMemory(input);
  EXPECT_TRUE(tight.fits());
  EXPECT_TRUE(tight.recompute);
  EXPECT_GE(tight.token_budget, 4096);
  input.memory_bytes = 16 * kGiB;
  const MemoryPlan none = PlanMemory(input);
  EXPECT_FALSE(none.fits());
  EXPECT_TRUE(none.would_fit.empty());
}

// Float32 as long as it works at a good budget, if need be with recomputation.
TEST(MemoryPlan, MomentsInBytesComeAfterRecomputation) {
  PlanInput input = Training(OneAndAHalf(), 0);
  input.memory_bytes = 42 * kGiB;
  const MemoryPlan wide = PlanMemory(input);
  EXPECT_TRUE(wide.fits());
  EXPECT_TRUE(wide.recompute);
  EXPECT_FALSE(wide.block_moments);
  input.memory_bytes = 32 * kGiB;
  const MemoryPlan narrow = PlanMemory(input);
  EXPECT_TRUE(narrow.fits());
  EXPECT_TRUE(narrow.block_moments);
}

// Not before a small budget with recomputation, and not where the host has no memory for it.
TEST(MemoryPlan, TheOptimizersStateGoesToTheHostWhenNothingElseFits) {
  PlanInput input = Training(Seven(), 0);
  EXPECT_FALSE(PlanMemory(input).state_on_host);
  input.memory_bytes = 79 * kGiB;
  const MemoryPlan plan = PlanMemory(input);
  EXPECT_TRUE(plan.fits());
  EXPECT_TRUE(plan.state_on_host);
  EXPECT_TRUE(plan.block_moments);
  EXPECT_TRUE(plan.recompute);
  EXPECT_EQ(plan.token_budget, 16384);
  const auto parameters = static_cast<double>(Seven().ParameterCount());
  EXPECT_NEAR(static_cast<double>(plan.host_bytes) / parameters, 4.125, 0.001);
  // Weights, gradients, and the buffers.
  double learner = 0;
  for (const PlanRow& row : plan.rows) {
    if (row.part == "learner" && row.what != "activations" && row.what != "logits") {
      learner += static_cast<double>(row.bytes);
    }
  }
  EXPECT_NEAR(learner / parameters, 4, 0.03);
  input.host_memory_bytes = 16 * kGiB;
  EXPECT_FALSE(PlanMemory(input).fits());
  input.host_memory_bytes = 64 * kGiB;
  input.state_on_host = false;
  const MemoryPlan refused = PlanMemory(input);
  EXPECT_FALSE(refused.fits());
  bool named = false;
  for (const auto& choice : refused.would_fit) {
    named |= choice.settings == "learner.optimizer_state = \"host\", learner.recompute = true";
  }
  EXPECT_TRUE(named);
}

// The state on the host is kept narrow; with more than one update a step it is there twice.
TEST(MemoryPlan, TheOptimizersStateOnTheHostComesWithMomentsInBytes) {
  PlanInput input = Training(Half(), 16384);
  input.state_on_host = true;
  const MemoryPlan plan = PlanMemory(input);
  EXPECT_TRUE(plan.state_on_host && plan.block_moments);
  input.updates = 4;
  const MemoryPlan undone = PlanMemory(input);
  EXPECT_EQ(undone.host_bytes, 2 * plan.host_bytes);
  EXPECT_EQ(Of(undone, "learner") - Of(plan, "learner"),
            static_cast<uint64_t>(2 * Half().ParameterCount()));
  input.gpu = false;
  EXPECT_FALSE(PlanMemory(input).state_on_host) << "on a CPU everything is";
  input.gpu = true;
  input.lora_rank = 16;
  EXPECT_FALSE(PlanMemory(input).state_on_host);
}

TEST(MemoryPlan, LeavesGivenSettingsAlone) {
  PlanInput input = Training(Half(), 2048);
  input.cache_bytes = 3 * kGiB;
  const MemoryPlan plan = PlanMemory(input);
  EXPECT_EQ(plan.token_budget, 2048);
  EXPECT_EQ(plan.cache_bytes, 3 * kGiB);
  EXPECT_FALSE(plan.recompute);
  uint64_t sum = 0;
  for (const PlanRow& row : plan.rows) sum += row.bytes;
  EXPECT_EQ(sum, plan.total_bytes);
}

TEST(MemoryPlan, MomentsInBytesTakeAQuarter) {
  PlanInput input = Training(Half(), 1024);
  input.gpu = false;
  input.block_moments = false;
  const uint64_t floats = PlanMemory(input).total_bytes;
  input.block_moments = true;
  const uint64_t bytes = PlanMemory(input).total_bytes;
  // Once in the optimizer and once in a checkpoint on its way.
  EXPECT_NEAR(static_cast<double>(floats - bytes) / static_cast<double>(Half().ParameterCount()),
              2 * (8 - 2.125), 0.01);
}

}  // namespace
}  // namespace tidemill
