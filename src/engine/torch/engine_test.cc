// The engine against the plain forward pass: whatever happens to a sequence's cache, its tokens
// have the log-probabilities the whole sequence has when it is computed at once.
#include "model/torch/aten.h"

#include "engine/engine.h"

#include <map>
#include <numeric>

#include "engine/torch/torch_engine.h"
#include "testing/engine_check.h"
#include "testing/golden.h"

namespace tidemill {
namespace {

class EngineGolden : public GoldenModelTest {};

TEST_P(EngineGolden, GreedyTokensAreThoseOfTransformers) {
  const std::vector<int32_t> greedy = Ids(Expected("greedy.ids"));
  EngineRun run(weights_, {.prefill_chunk = 5});
  const int32_t count = static_cast<int32_t>(greedy.size() - sequences_[0].size());
  run.Add(1, sequences_[0], {.sampling = {.temperature = 0}, .max_new_tokens = count});
  run.Finish();
  EXPECT_EQ(run.Tokens(1), greedy);
  run.ExpectPlainLogprobs();
}

TEST_P(EngineGolden, ManySequencesWithChunkedPromptsHaveThePlainLogprobs) {
  EngineRun run(weights_, {.prefill_chunk = 7});
  for (SequenceId id = 1; id <= 40; ++id) {
    const auto& prompt = sequences_[id % sequences_.size()];
    run.Add(id, prompt,
            {.sampling = {.temperature = 0.5f + 0.05f * static_cast<float>(id)},
             .max_new_tokens = static_cast<int32_t>(3 + id % 29),
             .seed = id * 17});
    if (id % 3 == 0) run.Step();
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(EngineGolden, AdaptersAreApplied) {
  auto adapter = LoadAdapter(GetParam() + "/lora", weights_->config());
  ASSERT_TRUE(adapter.ok());
  auto adapted = PolicyWeights::WithAdapter(weights_, *adapter);
  ASSERT_TRUE(adapted.ok());
  EngineRun run(*adapted, {});
  run.Add(1, sequences_[0], {.max_new_tokens = 20, .seed = 3});
  run.Finish();
  run.ExpectPlainLogprobs();
}

INSTANTIATE_TEST_SUITE_P(Golden, EngineGolden, testing::ValuesIn(GoldenModels()), GoldenName);

// With one step at a time, and with the next one started before the first is done.
class EngineTest : public testing::TestWithParam<int32_t> {
 protected:
  // Head dimension and widths that fill no vector register evenly.
  static ModelConfig Config() {
    ModelConfig config;
    config.family = ModelFamily::kQwen3;
    config.vocab_size = 77;
    config.hidden_size = 36;
    config.intermediate_size = 50;
    config.num_layers = 2;
    config.num_heads = 6;
    config.num_kv_heads = 2;
    config.head_dim = 10;
    config.max_position_embeddings = 256;
    config.initializer_range = 0.3;  // far from uniform, so that errors show
    return config;
  }
  static std::shared_ptr<const PolicyWeights> Weights(uint64_t seed) {
    return *PolicyWeights::NewRandom(Config(), seed);
  }
  static std::vector<TokenId> Prompt(size_t length, int32_t first = 1) {
    std::vector<TokenId> prompt(length);
    for (size_t i = 0; i < length; ++i) {
      prompt[i] = static_cast<TokenId>((static_cast<size_t>(first) + i * i * 7) % 77);
    }
    return prompt;
  }
  static uint64_t CacheBytes(uint64_t pages) {
    // Keys and values of 2 layers, 2 heads, 16 positions: 10 numbers a key, 16 a value (padded).
    return pages * 2 * 2 * 16 * (10 + 16) * 4;
  }

  static EngineOptions Steps(EngineOptions options) {
    options.steps_at_once = GetParam();
    return options;
  }

  const std::shared_ptr<const PolicyWeights> weights_ = Weights(1);
};

INSTANTIATE_TEST_SUITE_P(StepsAtOnce, EngineTest, testing::Values(1, 2));

TEST_P(EngineTest, ParkedSequencesGoOnWhereTheyStopped) {
  EngineRun run(weights_, Steps({}));
  run.Add(1, Prompt(20), {.max_new_tokens = 9, .seed = 5});
  run.Finish();
  EXPECT_EQ(run.engine().Stats().parked, 1u);
  run.Continue(1, {4, 5, 6}, {.max_new_tokens = 12, .seed = 6});
  run.Finish();
  run.Continue(1, {}, {.max_new_tokens = 2, .seed = 7});
  run.Finish();
  run.ExpectPlainLogprobs();
  EXPECT_EQ(run.engine().Stats().rebuilt_tokens, 0u);
  // The prompt, then what was appended, each time with the last token of the turn before.
  EXPECT_EQ(run.engine().Stats().prefill_tokens, 20u + 4u + 1u);
  ASSERT_TRUE(run.engine().Release(1).ok());
  EXPECT_EQ(run.engine().Stats().pages_used, 0u);
}

TEST_P(EngineTest, EvictedSequencesAreRebuilt) {
  EngineRun run(weights_, Steps({.max_context = 64, .cache_bytes = CacheBytes(7)}));
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Add(id, Prompt(30, static_cast<int32_t>(id)), {.max_new_tokens = 8, .seed = id});
    run.Finish();
  }
  EXPECT_GT(run.engine().Stats().evictions, 0u);
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Continue(id, {3, 2, 1}, {.max_new_tokens = 8, .seed = id});
    run.Finish();
  }
  EXPECT_GT(run.engine().Stats().rebuilt_tokens, 0u);
  run.ExpectPlainLogprobs();
}

TEST_P(EngineTest, RunningSequencesArePreemptedWhenPagesRunOutAndFinishAllTheSame) {
  EngineRun run(weights_,
                Steps({.max_context = 96, .prefill_chunk = 16, .cache_bytes = CacheBytes(12)}));
  for (SequenceId id = 1; id <= 10; ++id) {
    run.Add(id, Prompt(10, static_cast<int32_t>(id)), {.max_new_tokens = 60, .seed = id});
  }
  run.Finish();
  EXPECT_GT(run.engine().Stats().evictions, 0u);
  EXPECT_GT(run.engine().Stats().rebuilt_tokens, 0u);
  run.ExpectPlainLogprobs();
}

TEST_P(EngineTest, LongPromptsThatTogetherDoNotFitAllFinish) {
  EngineRun run(weights_,
                Steps({.max_context = 128, .prefill_chunk = 16, .cache_bytes = CacheBytes(10)}));
  for (SequenceId id = 1; id <= 5; ++id) {
    run.Add(id, Prompt(100, static_cast<int32_t>(id)), {.max_new_tokens = 20, .seed = id});
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(EngineTest, AGroupComputesItsPromptOnceAndItsMembersGoTheirOwnWays) {
  for (const size_t length : {2u, 16u, 17u, 40u, 49u}) {
    EngineRun run(weights_, Steps({.prefill_chunk = 13}));
    for (SequenceId id = 1; id <= 8; ++id) {
      run.Add(id, Prompt(length), {.max_new_tokens = 10, .seed = id}, /*share_group=*/9);
    }
    run.Finish();
    // A member that comes later finds it as well.
    run.Add(9, Prompt(length), {.max_new_tokens = 10, .seed = 99}, /*share_group=*/9);
    run.Finish();
    run.ExpectPlainLogprobs();
    // And for each but the first the prompt's last token, from which it draws.
    EXPECT_EQ(run.engine().Stats().prefill_tokens, length + 8);
    EXPECT_NE(run.Tokens(1), run.Tokens(2));
    for (SequenceId id = 1; id <= 9; ++id) ASSERT_TRUE(run.engine().Release(id).ok());
    EXPECT_EQ(run.engine().Stats().pages_used, 0u);
  }
}

TEST_P(EngineTest, GroupsSurviveAShortageOfPages) {
  EngineRun run(weights_,
                Steps({.max_context = 96, .prefill_chunk = 16, .cache_bytes = CacheBytes(14)}));
  for (SequenceId id = 1; id <= 24; ++id) {
    run.Add(id, Prompt(37, static_cast<int32_t>(id / 8)), {.max_new_tokens = 30, .seed = id},
            1 + id / 8);
    run.Step();
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(EngineTest, AReleasedLeaderLeavesThePromptToTheNext) {
  EngineRun run(weights_, Steps({.prefill_chunk = 4}));
  for (SequenceId id = 1; id <= 3; ++id) {
    run.Add(id, Prompt(30), {.max_new_tokens = 5, .seed = id}, 7);
  }
  run.Step();
  run.Release(1);
  run.Finish();
  run.ExpectPlainLogprobs();
  EXPECT_EQ(run.outputs(), 2u);
}

TEST_P(EngineTest, NeighboursChangeNothing) {
  EngineRun alone(weights_, Steps({}));
  alone.Add(1, Prompt(25), {.max_new_tokens = 40, .seed = 11});
  alone.Finish();
  EngineRun crowd(weights_, Steps({.prefill_chunk = 3}));
  for (SequenceId id = 2; id <= 50; ++id) {
    crowd.Add(id, Prompt(id, static_cast<int32_t>(id)), {.max_new_tokens = 60, .seed = id});
    if (id == 20) crowd.Add(1, Prompt(25), {.max_new_tokens = 40, .seed = 11});
  }
  crowd.Finish();
  EXPECT_EQ(alone.Tokens(1), crowd.Tokens(1));
  EXPECT_LT(alone.LargestDifference(crowd, 1), 1e-6);
}

TEST_P(EngineTest, TheSameSeedsGiveTheSameTokensAlsoWithMoreThreads) {
  const auto tokens = [&](int threads) {
    EngineRun run(weights_, Steps({.threads = threads}));
    for (SequenceId id = 1; id <= 30; ++id) {
      run.Add(id, Prompt(id), {.max_new_tokens = 20, .seed = id}, id % 4);
    }
    run.Finish();
    std::vector<std::vector<TokenId>> all;
    for (SequenceId id = 1; id <= 30; ++id) all.push_back(run.Tokens(id));
    return all;
  };
  const auto once = tokens(1);
  EXPECT_EQ(once, tokens(1));
  EXPECT_EQ(once, tokens(3));
}

TEST_P(EngineTest, DrawsFollowTheDistribution) {
  EngineRun run(weights_, Steps({}));
  constexpr int kDraws = 4000;
  for (SequenceId id = 1; id <= kDraws; ++id) {
    run.Add(id, Prompt(5), {.sampling = {.temperature = 1.3f}, .max_new_tokens = 1, .seed = id}, 3);
  }
  run.Finish();
  std::map<TokenId, int> counts;
  std::map<TokenId, double> expected;
  for (SequenceId id = 1; id <= kDraws; ++id) {
    const TurnOutput& turn = run.Turn(id);
    ++counts[turn.ids[0]];
    expected[turn.ids[0]] = std::exp(turn.logprobs[0]) * kDraws;
  }
  double chi = 0;
  int cells = 0;
  for (const auto& [token, count] : counts) {
    if (expected[token] < 5) continue;
    chi += (count - expected[token]) * (count - expected[token]) / expected[token];
    ++cells;
  }
  // Mean cells − 1, standard deviation √(2·(cells − 1)); four of those above it.
  EXPECT_GT(cells, 10);
  EXPECT_LT(chi, cells + 4 * std::sqrt(2.0 * cells));
}

TEST_P(EngineTest, TokensCarryTheVersionThatDrewThem) {
  EngineRun run(weights_, Steps({}));
  run.Add(1, Prompt(10), {.max_new_tokens = 10, .seed = 2});
  for (int i = 0; i < 4; ++i) run.Step();
  ASSERT_TRUE(run.engine().SwapWeights(Weights(2), 8, CacheOnSwap::kKeep).ok());
  run.Finish();
  const TurnOutput& turn = run.Turn(1);
  ASSERT_EQ(turn.versions.size(), 2u);
  // With a step that was under way when the new weights came.
  const uint32_t before = 4 + static_cast<uint32_t>(GetParam() - 1);
  EXPECT_EQ(turn.versions[0].version, 1u);
  EXPECT_EQ(turn.versions[0].tokens, before);
  EXPECT_EQ(turn.versions[1].version, 8u);
  EXPECT_EQ(turn.versions[1].tokens, 10 - before);
  EXPECT_EQ(run.engine().Stats().rebuilt_tokens, 0u);
}

TEST_P(EngineTest, WhoIsReleasedHasNoOutputNotEvenOfATurnThatEndedBeforeASwap) {
  EngineRun run(weights_, Steps({}));
  for (const SequenceId id : {1, 2}) run.Add(id, Prompt(10), {.max_new_tokens = 2, .seed = id});
  run.Step();
  ASSERT_TRUE(run.engine().SwapWeights(Weights(2), 8, CacheOnSwap::kKeep).ok());
  run.Release(1);
  run.Finish();
  EXPECT_EQ(run.outputs(), 1u);
  EXPECT_EQ(run.Turn(2).ids.size(), 2u);
  EXPECT_EQ(run.engine().Stats().parked, 1u);
}

TEST_P(EngineTest, ASwapThatRebuildsGivesTheNewWeightsLogprobs) {
  const auto newer = Weights(2);
  EngineRun run(weights_, Steps({.prefill_chunk = 6}));
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Add(id, Prompt(15), {.max_new_tokens = 14, .seed = id}, 4);
  }
  while (run.engine().Stats().generated_tokens < 40) run.Step();
  ASSERT_TRUE(run.engine().SwapWeights(newer, 2, CacheOnSwap::kRebuild).ok());
  run.Finish();
  EXPECT_GT(run.engine().Stats().rebuilt_tokens, 0u);
  for (SequenceId id = 1; id <= 6; ++id) {
    const TurnOutput& turn = run.Turn(id);
    const std::vector<double> plain = PlainLogprobs(*newer, run.Tokens(id), 1.0);
    size_t i = 0;
    for (const TokenVersionRun& part : turn.versions) {
      for (uint32_t n = 0; n < part.tokens; ++n, ++i) {
        if (part.version != 2) continue;
        EXPECT_NEAR(turn.logprobs[i], plain[14 + i], 1e-4) << "sequence " << id << " token " << i;
      }
    }
    EXPECT_EQ(turn.versions.back().version, 2u);
  }
}

TEST_P(EngineTest, AfterASwapNewMembersOfAGroupDoNotUseTheOldPrompt) {
  const auto newer = Weights(2);
  EngineRun run(weights_, Steps({}));
  run.Add(1, Prompt(33), {.max_new_tokens = 4, .seed = 1}, 4);
  run.Finish();
  ASSERT_TRUE(run.engine().SwapWeights(newer, 2, CacheOnSwap::kKeep).ok());
  run.Add(2, Prompt(33), {.max_new_tokens = 4, .seed = 2}, 4);
  run.Finish();
  const std::vector<double> plain = PlainLogprobs(*newer, run.Tokens(2), 1.0);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(run.Turn(2).logprobs[i], plain[32 + i], 1e-4);
}

TEST_P(EngineTest, TruncationKeepsTheLikelyTokensAndGivesBothLogprobs) {
  EngineRun run(weights_, Steps({}));
  for (SequenceId id = 1; id <= 200; ++id) {
    run.Add(id, Prompt(9), {.sampling = {.top_k = 3}, .max_new_tokens = 1, .seed = id});
    run.Add(1000 + id, Prompt(9), {.sampling = {.top_p = 0.5f}, .max_new_tokens = 1, .seed = id});
    run.Add(2000 + id, Prompt(9), {.sampling = {.min_p = 0.6f}, .max_new_tokens = 1, .seed = id});
  }
  run.Finish();
  run.ExpectPlainLogprobs();
  for (const SequenceId base : {0u, 1000u, 2000u}) {
    std::map<TokenId, std::pair<double, double>> seen;
    for (SequenceId id = base + 1; id <= base + 200; ++id) {
      const TurnOutput& turn = run.Turn(id);
      ASSERT_EQ(turn.full_logprobs.size(), 1u);
      seen[turn.ids[0]] = {std::exp(turn.logprobs[0]), std::exp(turn.full_logprobs[0])};
    }
    double kept = 0, full = 0, best = 0, least = 1;
    for (const auto& [token, p] : seen) {
      kept += p.first;
      full += p.second;
      best = std::max(best, p.second);
      least = std::min(least, p.second);
    }
    EXPECT_NEAR(kept, 1.0, 1e-4) << "all that remain were drawn in 200 draws";
    EXPECT_LT(full, 1.0);
    if (base == 0) {
      EXPECT_EQ(seen.size(), 3u);
    } else if (base == 1000) {
      EXPECT_TRUE(full >= 0.5 && full - least < 0.5) << full;
    } else {
      EXPECT_GE(least, 0.6 * best - 1e-6);
    }
  }
}

TEST_P(EngineTest, TurnsEndAtStopIdsStopStringsLengthAndContext) {
  EngineOptions options{.max_context = 40};
  options.token_bytes = [](TokenId id) { return id % 2 == 0 ? "ab" : "c"; };
  EngineRun run(weights_, Steps(options));
  std::vector<TokenId> all(77);
  std::iota(all.begin(), all.end(), 0);
  run.Add(1, Prompt(5), {.max_new_tokens = 9, .stop_ids = all, .seed = 1});
  run.Add(2, Prompt(5), {.max_new_tokens = 30, .stop_strings = {"zz", "bab"}, .seed = 2});
  run.Add(3, Prompt(5), {.max_new_tokens = 9, .seed = 3});
  run.Add(4, Prompt(5), {.max_new_tokens = 90, .seed = 4});
  run.Finish();
  EXPECT_EQ(run.Turn(1).finish, TurnFinish::kStop);
  EXPECT_EQ(run.Turn(1).ids.size(), 1u);
  EXPECT_EQ(run.Turn(2).finish, TurnFinish::kStop);
  std::string text;
  for (const TokenId id : run.Turn(2).ids) text += options.token_bytes(id);
  EXPECT_EQ(text.find("bab"), text.size() - 3);
  EXPECT_EQ(run.Turn(3).finish, TurnFinish::kLength);
  EXPECT_EQ(run.Turn(3).ids.size(), 9u);
  EXPECT_EQ(run.Turn(4).finish, TurnFinish::kContext);
  EXPECT_EQ(run.Tokens(4).size(), 40u);
}

TEST_P(EngineTest, WrongRequestsAreRefusedByName) {
  auto engine = NewEngine(weights_, 1, Steps({.max_context = 32, .max_sequences = 2}));
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  Engine& e = **engine;
  const auto add = [&](SequenceId id, std::vector<TokenId> prompt, TurnParams turn = {}) {
    return e.Add(
        {.id = id, .prompt = std::move(prompt), .share_group = 0, .turn = std::move(turn)});
  };
  EXPECT_EQ(add(1, {}).code(), Code::kInvalid);
  EXPECT_NE(add(1, {1, 77}).message().find("77"), std::string::npos);
  EXPECT_EQ(add(1, {-1}).code(), Code::kInvalid);
  EXPECT_EQ(add(1, Prompt(32)).code(), Code::kInvalid);
  EXPECT_EQ(add(1, {1}, {.max_new_tokens = 0}).code(), Code::kInvalid);
  EXPECT_EQ(add(1, {1}, {.sampling = {.temperature = -1}}).code(), Code::kInvalid);
  EXPECT_EQ(add(1, {1}, {.stop_strings = {"x"}}).code(), Code::kInvalid);
  EXPECT_TRUE(add(1, {1}).ok());
  EXPECT_EQ(add(1, {1}).code(), Code::kExists);
  EXPECT_EQ(e.Continue(1, {}, {}).code(), Code::kInvalid) << "it is not parked";
  EXPECT_TRUE(add(2, {1}).ok());
  EXPECT_EQ(add(3, {1}).code(), Code::kFull);
  EXPECT_EQ(e.Release(9).code(), Code::kNotFound);
  EXPECT_EQ(e.Continue(9, {}, {}).code(), Code::kNotFound);
  ModelConfig other = Config();
  other.num_layers = 3;
  EXPECT_EQ(e.SwapWeights(*PolicyWeights::NewRandom(other, 1), 2, CacheOnSwap::kKeep).code(),
            Code::kInvalid);
  EXPECT_EQ(NewEngine(weights_, 1, {.max_context = 200, .cache_bytes = 1000}).status().code(),
            Code::kInvalid);
}

TEST_P(EngineTest, BrokenWeightsFailTheStepInsteadOfDrawingNonsenseAndBetterOnesGoOn) {
  NamedTensors tensors = weights_->tensors();
  tensors["model.norm.weight"] = at::full({36}, std::nan(""));
  auto engine = NewEngine(*PolicyWeights::FromTensors(Config(), tensors), 1, Steps({}));
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE((*engine)->Add({.id = 1, .prompt = {1, 2}, .share_group = 0, .turn = {}}).ok());
  EXPECT_EQ((*engine)->Step().status().code(), Code::kInternal);
  ASSERT_TRUE((*engine)->Release(1).ok());
  ASSERT_TRUE((*engine)->SwapWeights(weights_, 2, CacheOnSwap::kKeep).ok());
  ASSERT_TRUE((*engine)->Add({.id = 2, .prompt = {1, 2}, .turn = {.max_new_tokens = 3}}).ok());
  size_t tokens = 0;
  while ((*engine)->Work()) {
    const auto finished = (*engine)->Step();
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    for (const TurnOutput& turn : *finished) tokens += turn.ids.size();
  }
  EXPECT_EQ(tokens, 3u);
}

}  // namespace
}  // namespace tidemill
