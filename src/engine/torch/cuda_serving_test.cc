// What a server asks of an engine on a GPU. Skipped where there is none.
#include "model/torch/aten.h"

#include "model/torch/moved_weights.h"
#include "testing/engine_check.h"
#include "testing/gpu_test_kit.h"

namespace tidemill {
namespace {

class CudaServing : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    ModelConfig config;
    config.family = ModelFamily::kQwen2;
    config.vocab_size = 1000;
    config.hidden_size = 128;
    config.intermediate_size = 256;
    config.num_layers = 2;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 64;
    config.max_position_embeddings = 512;
    config.qkv_bias = true;
    config.initializer_range = 0.2;
    plain_ = *PolicyWeights::NewRandom(config, 5);
    weights_ = *MovedWeights(plain_, kTestDevice, at::kFloat);
  }

  static std::vector<TokenId> Prompt(size_t length, size_t first) {
    std::vector<TokenId> tokens(length);
    for (size_t i = 0; i < length; ++i)
      tokens[i] = static_cast<TokenId>((first + i * i * 7) % 1000);
    return tokens;
  }
  void ExpectPlain(const EngineRun& run, SequenceId id) const {
    const TurnOutput& turn = run.Turn(id);
    const std::vector<double> plain = PlainLogprobs(*plain_, run.Tokens(id), 1.0);
    const size_t first = run.Tokens(id).size() - turn.ids.size();
    for (size_t i = 0; i < turn.ids.size(); ++i) {
      ASSERT_NEAR(turn.logprobs[i], plain[first - 1 + i], 1e-3) << "sequence " << id;
    }
  }

  std::shared_ptr<const PolicyWeights> plain_, weights_;
};

TEST_F(CudaServing, PromptsFromTheCacheHaveThePlainLogprobs) {
  constexpr int32_t kNew = Sized(20, 5);
  EngineRun run(weights_, {.max_context = 400, .max_running = 8, .prefill_chunk = 64});
  SequenceId id = 0;
  for (const size_t split : {1, 15, 16, 17, 100, 112, 199, 200}) {
    for (const uint64_t session : {0, 3}) {
      run.AddStart({.id = ++id,
                    .prompt = Prompt(split, id),
                    .turn = {.max_new_tokens = kNew, .seed = id},
                    .tenant = 1,
                    .session = session});
      run.Finish();
      std::vector<TokenId> longer = run.Tokens(id);
      run.Release(id);
      longer.push_back(7);
      run.AddStart({.id = ++id,
                    .prompt = longer,
                    .turn = {.max_new_tokens = kNew, .seed = id},
                    .tenant = 1,
                    .session = session});
      // Another with the same beginning at the same time.
      run.AddStart({.id = ++id,
                    .prompt = longer,
                    .turn = {.max_new_tokens = kNew, .seed = id},
                    .tenant = 1,
                    .session = session});
      run.Finish();
      for (const SequenceId done : {id - 1, id}) {
        ExpectPlain(run, done);
        EXPECT_GE(run.Turn(done).cached_tokens, (longer.size() - 2) / 16 * 16);
        run.Release(done);
      }
    }
  }
}

TEST_F(CudaServing, TheModelsOwnLogprobsComeFromTheHostBesideDrawsOfTheDevice) {
  EngineRun run(weights_, {.max_context = 400, .max_running = 8});
  run.Add(1, Prompt(20, 1), {.max_new_tokens = 30, .seed = 1});
  run.Add(2, Prompt(20, 2),
          {.sampling = {.temperature = 0.7f, .top_logprobs = 3}, .max_new_tokens = 30, .seed = 2});
  run.Add(3, Prompt(20, 2), {.sampling = {.temperature = 0.7f}, .max_new_tokens = 30, .seed = 2});
  run.Add(4, Prompt(20, 2),
          {.sampling = {.temperature = 0.7f, .top_k = 5, .top_logprobs = 0},
           .max_new_tokens = 30,
           .seed = 2});
  run.Finish();
  ExpectPlain(run, 1);
  EXPECT_EQ(run.Turn(2).ids, run.Turn(3).ids) << "who asks for more draws the same";
  for (const SequenceId id : {2, 4}) {
    const std::vector<double> model = PlainLogprobs(*plain_, run.Tokens(id), 1.0);
    for (size_t i = 0; i < 30; ++i) {
      ASSERT_NEAR(run.Turn(id).model_logprobs[i], model[19 + i], 1e-3);
    }
  }
  EXPECT_EQ(run.Turn(2).top.at(5).size(), 3u);
}

TEST_F(CudaServing, MoreVersionsThanOneAreRefusedByName) {
  const auto engine = NewEngine(weights_, 1, {.max_context = 400, .versions = 2});
  EXPECT_EQ(engine.status().code(), Code::kInvalid);
  EXPECT_NE(engine.status().message().find("engine.versions"), std::string::npos);
  EngineRun run(weights_, {.max_context = 400});
  EXPECT_EQ(run.engine().Add({.id = 1, .prompt = {1, 2}, .pin_version = 1}).code(),
            Code::kUnavailable);
}

}  // namespace
}  // namespace tidemill
