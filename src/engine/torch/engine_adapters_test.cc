// Rows of several adapters, and of several versions of one, in the steps of one engine.
#include "model/torch/aten.h"

#include "model/torch/lora.h"
#include "testing/engine_check.h"
#include "testing/golden.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using SharedWeights = std::shared_ptr<const PolicyWeights>;

class AdaptersGolden : public GoldenAdapterTest {};

// PEFT computed the logits behind every token of the sequence.
TEST_P(AdaptersGolden, RowsOfAnAdapterBesideOthersHaveTheLogprobsOfPeft) {
  EngineRun run(weights_, {.prefill_chunk = 5, .adapters = 1});
  const PolicyVersion peft{.policy = PolicyId{1}, .version = 1};
  ASSERT_TRUE(run.engine().SwapWeights(adapted_, peft, CacheOnSwap::kRebuild).ok());
  constexpr int32_t kTop = 20;
  const auto length = static_cast<SequenceId>(sequences_[0].size());
  for (SequenceId id = 1; id < length; ++id) {
    const auto end = sequences_[0].begin() + static_cast<long>(id);
    SequenceStart start{.id = id, .prompt = {sequences_[0].begin(), end}};
    start.turn = {.sampling = {.top_logprobs = kTop}, .max_new_tokens = 1, .seed = id};
    start.policy = peft.policy;
    SequenceStart beside = start;
    beside.id += length;
    beside.policy = PolicyId::kMain;
    run.AddStart(std::move(start));
    run.AddStart(std::move(beside));
  }
  run.Finish();
  const at::Tensor expected = at::log_softmax(lora_logits_, 1);
  for (SequenceId id = 1; id < length; ++id) {
    const std::vector<TokenLogprob>& top = run.Turn(id).top.at(0);
    ASSERT_EQ(top.size(), static_cast<size_t>(kTop));
    for (const TokenLogprob& token : top) {
      const double peft_has = expected[static_cast<int64_t>(id) - 1][token.id].item<double>();
      ASSERT_NEAR(token.logprob, peft_has, 1e-4) << "behind token " << id;
    }
    const auto plain = PlainLogprobs(*weights_, run.Tokens(id + length), 1.0);
    ASSERT_NEAR(run.Turn(id + length).logprobs.at(0), plain.back(), 1e-4) << "of the base";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, AdaptersGolden, testing::ValuesIn(GoldenModels()), GoldenName);

class EngineAdapters : public testing::TestWithParam<ModelFamily> {
 protected:
  static ModelConfig Config() {
    ModelConfig config;
    config.vocab_size = 77;
    config.hidden_size = 36;
    config.intermediate_size = 50;
    config.num_layers = 2;
    config.num_heads = 6;
    config.num_kv_heads = 2;
    config.head_dim = 10;
    config.max_position_embeddings = 256;
    config.initializer_range = 0.3;
    TakeFormOf(GetParam(), config);
    return config;
  }
  // Ranks and modules differ from one adapter to the next.
  static SharedWeights With(const SharedWeights& base, uint64_t seed) {
    static const std::vector<std::vector<std::string>> kTargets = {
        {}, {"q_proj", "v_proj"}, {"down_proj", "up_proj"}, {"o_proj"}};
    LoraConfig lora;
    lora.rank = static_cast<int64_t>(1 + seed % 9);
    lora.alpha = 2 * static_cast<double>(lora.rank);
    lora.target_modules = kTargets[seed % kTargets.size()];
    if (lora.target_modules.empty()) lora.target_pattern = "all-linear";
    LoraAdapter adapter = **NewAdapter(lora, base->config(), seed);
    at::manual_seed(seed);
    for (auto& [name, tensor] : adapter.tensors) tensor = at::randn_like(tensor) * 0.3;
    return *PolicyWeights::WithAdapter(base, std::make_shared<const LoraAdapter>(adapter));
  }
  static std::vector<TokenId> Prompt(SequenceId id) {
    std::vector<TokenId> prompt(5 + 7 * (id % 5));
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = static_cast<TokenId>((id + i * i * 7) % 77);
    }
    return prompt;
  }
  static SequenceStart Start(SequenceId id, PolicyId policy) {
    SequenceStart start{.id = id, .prompt = Prompt(id)};
    start.turn = {.max_new_tokens = static_cast<int32_t>(8 + id), .seed = id};
    start.policy = policy;
    return start;
  }
  static void ExpectSame(const EngineRun& run, const EngineRun& alone, SequenceId id) {
    EXPECT_EQ(run.Tokens(id), alone.Tokens(id)) << "sequence " << id;
    EXPECT_EQ(run.Turn(id).logprobs, alone.Turn(id).logprobs) << "sequence " << id;
  }

  const SharedWeights base_ = *PolicyWeights::NewRandom(Config(), 1);
};

TEST_P(EngineAdapters, EachOfSixteenRowsEqualsTheEngineWithItsAdapterAloneToTheBit) {
  constexpr uint32_t kPolicies = 5;
  for (const int threads : {1, 3}) {
    EngineRun run(base_, {.prefill_chunk = 23, .threads = threads, .adapters = 2 * kPolicies});
    std::map<PolicyVersion, SharedWeights> published;
    for (const uint64_t version : {uint64_t{1}, uint64_t{2}}) {
      for (uint32_t policy = 1; policy <= kPolicies; ++policy) {
        const PolicyVersion name{PolicyId{policy}, version};
        published[name] = With(base_, 10 * policy + version);
        ASSERT_TRUE(run.engine().SwapWeights(published[name], name, CacheOnSwap::kRebuild).ok());
      }
    }
    std::map<SequenceId, PolicyVersion> drawn_from;
    for (SequenceId id = 1; id <= 16; ++id) {
      SequenceStart start = Start(id, PolicyId{static_cast<uint32_t>(id) % kPolicies + 1});
      if (id <= kPolicies) start.pin_version = 1;
      drawn_from[id] = {start.policy, start.pin_version.value_or(2)};
      run.AddStart(std::move(start));
    }
    run.AddStart(Start(17, PolicyId::kMain));
    run.Finish();
    EXPECT_EQ(run.engine().Stats().policies, 1 + kPolicies);
    for (const auto& [id, name] : drawn_from) {
      EngineRun alone(published.at(name), {});
      alone.AddStart(Start(id, PolicyId::kMain));
      alone.Finish();
      ExpectSame(run, alone, id);
      ASSERT_EQ(run.Turn(id).versions.size(), 1u);
      EXPECT_EQ(run.Turn(id).versions[0].version, name.version);
      alone.ExpectPlainLogprobs();
    }
    EngineRun alone(base_, {});
    alone.AddStart(Start(17, PolicyId::kMain));
    alone.Finish();
    ExpectSame(run, alone, 17);
  }
}

TEST_P(EngineAdapters, APublicationChangesItsPolicysRowsInTheMiddleAndNobodyElses) {
  const PolicyId first{1}, second{2};
  const auto run_with = [&](bool publishes) {
    auto run = std::make_unique<EngineRun>(base_, EngineOptions{.adapters = 3});
    for (const PolicyId policy : {first, second}) {
      const SharedWeights weights = With(base_, static_cast<uint64_t>(policy));
      EXPECT_TRUE(run->engine().SwapWeights(weights, {policy, 1}, CacheOnSwap::kRebuild).ok());
    }
    run->AddStart(Start(1, first));
    run->AddStart(Start(2, second));
    run->AddStart(Start(3, PolicyId::kMain));
    for (int step = 0; step < 4; ++step) run->Step();
    if (publishes) {
      EXPECT_TRUE(
          run->engine().SwapWeights(With(base_, 7), {first, 2}, CacheOnSwap::kRebuild).ok());
    }
    run->Finish();
    return run;
  };
  const auto changed = run_with(true), same = run_with(false);
  ExpectSame(*changed, *same, 2);
  ExpectSame(*changed, *same, 3);
  const TurnOutput& turn = changed->Turn(1);
  ASSERT_EQ(turn.versions.size(), 2u);
  const std::vector<double> plain = PlainLogprobs(*With(base_, 7), changed->Tokens(1), 1.0);
  for (size_t i = 1; i <= turn.versions[1].tokens; ++i) {
    EXPECT_NEAR(turn.logprobs[turn.ids.size() - i], plain[plain.size() - i], 1e-4);
  }
  EXPECT_EQ(changed->engine().Stats().version, 1u) << "of the main policy";
}

TEST_P(EngineAdapters, ADroppedPolicyStartsNothingAndItsSequencesGoOn) {
  EngineRun run(base_, {.adapters = 1});
  const SharedWeights weights = With(base_, 3);
  ASSERT_TRUE(run.engine().SwapWeights(weights, {PolicyId{1}, 1}, CacheOnSwap::kRebuild).ok());
  const Status full = run.engine().SwapWeights(weights, {PolicyId{2}, 1}, CacheOnSwap::kRebuild);
  EXPECT_EQ(full.code(), Code::kUnavailable);
  EXPECT_NE(full.message().find("holds 1 adapters at once"), std::string::npos) << full.message();
  run.AddStart(Start(1, PolicyId{1}));
  run.Step();
  ASSERT_TRUE(run.engine().DropPolicy(PolicyId{1}).ok());
  EXPECT_EQ(run.engine().Add(Start(2, PolicyId{1})).code(), Code::kNotFound);
  EXPECT_EQ(run.engine().DropPolicy(PolicyId{1}).code(), Code::kNotFound);
  EXPECT_EQ(run.engine().DropPolicy(PolicyId::kMain).code(), Code::kInvalid);
  run.Finish();
  EngineRun alone(weights, {});
  alone.AddStart(Start(1, PolicyId::kMain));
  alone.Finish();
  ExpectSame(run, alone, 1);
  run.Release(1);
  EXPECT_EQ(run.engine().Stats().policies, 1u);
  EXPECT_TRUE(run.engine().SwapWeights(weights, {PolicyId{2}, 1}, CacheOnSwap::kRebuild).ok());
}

INSTANTIATE_TEST_SUITE_P(Families, EngineAdapters,
                         testing::Values(ModelFamily::kQwen3, ModelFamily::kQwen2,
                                         ModelFamily::kOlmo2, ModelFamily::kGemma3));

}  // namespace
}  // namespace tidemill
