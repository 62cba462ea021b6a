// The token route beside the chat route, over an engine that samples: who renders for itself gets
// the same tokens.
#include <gtest/gtest.h>

#include <memory>

#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"
#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

constexpr int kCases = 500;
constexpr int kAtOnce = 20;

class TokenRouteTest : public GatewayTest {
 protected:
  void SetUp() override {
    GatewayTest::SetUp();
    policy_ = std::make_unique<ServedPolicy>(ReadServedPolicy(dir_.path()).value());
    ModelConfig config = ReadModelConfig(dir_.path()).value();
    config.initializer_range = 0.2;
    const auto weights = PolicyWeights::NewRandom(config, 3);
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    auto engine = NewEngine(
        *weights, 1, {.max_context = 1024, .max_running = 32, .token_bytes = [this](TokenId id) {
                        return std::string(policy_->tokenizer.TokenBytes(id));
                      }});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    channel_ = NewLocalWeightChannel();
    engine_ = std::make_unique<EngineThread>(std::move(*engine), *channel_, clock_,
                                             EngineThreadOptions{});
    recorder_ = std::make_unique<PlainRecorder>(*policy_);
    GatewayOptions options;
    options.plan.context_tokens = 1024;
    auto gateway =
        Gateway::Start(std::move(options), *policy_, *engine_, *recorder_, clock_, metrics_);
    ASSERT_TRUE(gateway.ok()) << gateway.status().ToString();
    gateway_ = std::move(*gateway);
  }

  // Several requests at once, each on a connection of its own.
  std::vector<Json> AskAll(const std::string& path, const std::vector<Json>& bodies) const {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (const Json& body : bodies) {
      clients.push_back(std::make_unique<RawClient>(gateway_->port()));
      clients.back()->Send(PostText(path, body.dump()));
    }
    std::vector<Json> answers;
    for (const auto& client : clients) {
      const std::string answer = client->ReadToEnd();
      EXPECT_EQ(StatusOf(answer), 200) << answer;
      answers.push_back(Json::parse(BodyOf(answer), nullptr, false));
    }
    return answers;
  }

  RealClock clock_;
  Metrics metrics_;
  std::unique_ptr<ServedPolicy> policy_;
  std::unique_ptr<WeightChannel> channel_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<PlainRecorder> recorder_;
  std::unique_ptr<Gateway> gateway_;
};

// What both routes are asked.
struct Case {
  Json messages = Json::array();
  Json sampling;
};

Case RandomCase(Random& random) {
  Case one;
  const int turns = static_cast<int>(random.Between(1, 4));
  for (int turn = 0; turn < turns; ++turn) {
    std::string text;
    for (int64_t i = random.Between(1, 30); i > 0; --i) {
      text += static_cast<char>(random.Between(' ', '~'));
    }
    const char* role = turn % 2 == 0 ? "user" : "assistant";
    one.messages.push_back({{"role", role}, {"content", text}});
  }
  one.sampling = {{"seed", static_cast<int64_t>(random.Below(1 << 30))},
                  {"max_tokens", random.Between(1, 12)},
                  {"temperature", 0.5 + 0.25 * static_cast<double>(random.Below(4))}};
  if (random.Chance(0.3)) one.sampling["top_p"] = 0.9;
  if (random.Chance(0.3)) one.sampling["top_k"] = 20;
  if (random.Chance(0.3)) one.sampling["min_p"] = 0.02;
  return one;
}

TEST_F(TokenRouteTest, GiveEqualIdsForEqualPromptsAndSeeds) {
  Random random(42);
  for (int first = 0; first < kCases; first += kAtOnce) {
    std::vector<Json> chats, words, generates;
    for (int i = 0; i < kAtOnce; ++i) {
      const Case one = RandomCase(random);
      Json chat = one.sampling;
      chat["model"] = "any";
      chat["messages"] = one.messages;
      chat["return_token_ids"] = true;
      chats.push_back(chat);
      words.push_back({{"model", "any"}, {"messages", one.messages}});
      generates.push_back({{"sampling_params", one.sampling}});
    }
    const std::vector<Json> chosen = AskAll("/v1/chat/completions", chats);
    const std::vector<Json> encoded = AskAll("/tokenize", words);
    for (size_t i = 0; i < generates.size(); ++i) {
      generates[i]["token_ids"] = encoded[i]["tokens"];
    }
    const std::vector<Json> drawn = AskAll("/inference/v1/generate", generates);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const Json& message = chosen[i]["choices"][0]["message"];
      const Json& choice = drawn[i]["choices"][0];
      ASSERT_EQ(message["prompt_token_ids"], encoded[i]["tokens"]) << first + static_cast<int>(i);
      ASSERT_EQ(message["generation_token_ids"], choice["token_ids"])
          << first + static_cast<int>(i);
      ASSERT_FALSE(choice["token_ids"].empty());
      const Json& logprobs = message["generation_log_probs"];
      ASSERT_EQ(logprobs.size(), choice["token_ids"].size());
      for (size_t t = 0; t < logprobs.size(); ++t) {
        const Json& entry = choice["logprobs"]["content"][t];
        EXPECT_EQ(entry["token"], "token_id:" + choice["token_ids"][t].dump());
        EXPECT_NEAR(entry["logprob"].get<double>(), logprobs[t].get<double>(), 1e-4);
      }
      EXPECT_EQ(choice["finish_reason"], chosen[i]["choices"][0]["finish_reason"]);
    }
  }
}

}  // namespace
}  // namespace tidemill
