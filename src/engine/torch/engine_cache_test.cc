// Prompts taken from the cache against the plain forward pass.
#include "model/torch/aten.h"

#include "testing/engine_check.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

std::vector<TokenId> AnyTokens(size_t length, size_t first, int64_t vocabulary) {
  std::vector<TokenId> tokens(length);
  for (size_t i = 0; i < length; ++i) {
    tokens[i] = static_cast<TokenId>((first + i * i * 7) % static_cast<size_t>(vocabulary));
  }
  return tokens;
}

class EngineCacheTest : public testing::Test {
 protected:
  const std::shared_ptr<const PolicyWeights> weights_ = *PolicyWeights::NewRandom(TinyConfig(), 3);

  std::vector<TokenId> Prompt(size_t length, size_t first = 1) const {
    return AnyTokens(length, first, weights_->config().vocab_size);
  }
};

TEST_F(EngineCacheTest, AtEverySplitOfAPromptTheTokensAreThoseWithoutACache) {
  const std::vector<TokenId> prompt = Prompt(70);
  const TurnParams turn{.sampling = {.temperature = 0}, .max_new_tokens = 8};
  EngineRun plain(weights_, {.prefill_chunk = 13});
  plain.Add(1, prompt, turn);
  plain.Finish();
  uint64_t reused = 0;
  for (size_t split = 1; split < prompt.size(); ++split) {
    for (const uint64_t session : {0, 5}) {
      EngineRun run(weights_, {.prefill_chunk = 13});
      const std::vector<TokenId> beginning(prompt.begin(),
                                           prompt.begin() + static_cast<long>(split));
      run.AddStart({.id = 1, .prompt = beginning, .turn = turn, .tenant = 1, .session = session});
      run.Finish();
      run.Release(1);
      run.AddStart({.id = 2, .prompt = prompt, .turn = turn, .tenant = 1, .session = session});
      run.Finish();
      run.ExpectPlainLogprobs();
      ASSERT_EQ(run.Turn(2).ids, plain.Turn(1).ids) << "split at " << split;
      // A session goes on in the middle of a page; others share whole ones.
      const size_t least = session != 0 ? split : split / 16 * 16;
      ASSERT_GE(run.Turn(2).cached_tokens, least) << "split at " << split;
      reused += run.engine().Stats().reused_tokens;
    }
  }
  EXPECT_GT(reused, 70 * 60u);
}

TEST_F(EngineCacheTest, APromptThatThreadsShareHasTheNumbersItHasOnOne) {
  const auto run_with = [&](int threads) {
    auto run = std::make_unique<EngineRun>(weights_,
                                           EngineOptions{.prefill_chunk = 100, .threads = threads});
    for (SequenceId id = 1; id <= 3; ++id) {
      run->Add(id, Prompt(20 + 30 * id, id), {.max_new_tokens = 5, .seed = id});
    }
    run->Finish();
    return run;
  };
  const auto one = run_with(1);
  one->ExpectPlainLogprobs();
  for (const int threads : {2, 3}) {
    const auto several = run_with(threads);
    for (SequenceId id = 1; id <= 3; ++id) {
      EXPECT_EQ(one->Turn(id).ids, several->Turn(id).ids);
      EXPECT_EQ(one->Turn(id).logprobs, several->Turn(id).logprobs);
    }
  }
}

TEST_F(EngineCacheTest, TheModelsOwnLogprobsComeWithTheMostLikelyTokens) {
  EngineRun run(weights_, {});
  const std::vector<TokenId> prompt = Prompt(20);
  run.Add(1, prompt,
          {.sampling = {.temperature = 1.7f, .top_k = 9, .top_logprobs = 4},
           .max_new_tokens = 12,
           .seed = 4});
  run.Finish();
  const TurnOutput& turn = run.Turn(1);
  const std::vector<double> model = PlainLogprobs(*weights_, run.Tokens(1), 1.0);
  ASSERT_EQ(turn.model_logprobs.size(), 12u);
  ASSERT_EQ(turn.top.size(), 12u);
  const PackedBatch batch = Pack({run.Tokens(1)});
  const at::Tensor all = at::log_softmax(
      Logits(weights_->view(), ForwardHidden(weights_->config(), weights_->view(), batch))
          .to(at::kDouble),
      1);
  for (size_t i = 0; i < 12; ++i) {
    ASSERT_NEAR(turn.model_logprobs[i], model[prompt.size() - 1 + i], 1e-4);
    const auto [values, ids] = all[static_cast<int64_t>(prompt.size() - 1 + i)].topk(4);
    ASSERT_EQ(turn.top[i].size(), 4u);
    for (int64_t k = 0; k < 4; ++k) {
      EXPECT_EQ(turn.top[i][static_cast<size_t>(k)].id, ids[k].item<int64_t>());
      EXPECT_NEAR(turn.top[i][static_cast<size_t>(k)].logprob, values[k].item<double>(), 1e-4);
    }
  }
}

TEST_F(EngineCacheTest, PinnedAndFollowingSequencesAreComputedWithTheirOwnWeights) {
  const std::shared_ptr<const PolicyWeights> newer = *PolicyWeights::NewRandom(TinyConfig(), 4);
  EngineRun run(weights_, {.threads = 2, .versions = 2});
  const TurnParams turn{.max_new_tokens = 20, .seed = 4};
  for (SequenceId id = 1; id <= 4; ++id) {
    run.AddStart({.id = id, .prompt = Prompt(30, id), .turn = turn, .tenant = 1, .pin_version = 1});
  }
  ASSERT_TRUE(run.engine().SwapWeights(newer, 2, CacheOnSwap::kKeep).ok());
  EngineRun other(newer, {});
  for (SequenceId id = 5; id <= 8; ++id) {
    run.AddStart({.id = id, .prompt = Prompt(30, id), .turn = turn, .tenant = 1});
    other.Add(id, Prompt(30, id), turn);
  }
  run.Finish();
  other.Finish();
  other.ExpectPlainLogprobs();
  for (SequenceId id = 5; id <= 8; ++id) {
    EXPECT_EQ(run.Turn(id).ids, other.Turn(id).ids);
    EXPECT_LT(run.LargestDifference(other, id), 1e-6);
    run.Release(id);
  }
  run.ExpectPlainLogprobs();
  EXPECT_EQ(run.engine().Stats().versions_held, 2u);
}

}  // namespace
}  // namespace tidemill
