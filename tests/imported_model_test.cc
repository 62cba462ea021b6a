// A published model read from GGUF gives what transformers gives: ids, log-probabilities, greedy
// continuations. Needs the model's file and reference.json (docs/models.md says where they are
// looked for); TIDEMILL_ALL_PROMPTS=1 checks every prompt instead of the shortest few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "conversation/model_template.h"
#include "core/files.h"
#include "engine/torch/torch_engine.h"
#include "model/generation_config.h"
#include "model/gguf/gguf_import.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "model/torch/score.h"
#include "testing/int8_rounding.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

std::string SharedFolder() {
  const char* named = std::getenv("TIDEMILL_SHARED");
  return named != nullptr && *named != '\0' ? named : SourceDir() + "/../shared";
}

// Tokens of prompt and continuation the quick form of this test computes.
constexpr size_t kQuickTokens = 420;

class ImportedModel : public testing::Test {
 protected:
  void SetUp() override {
    const std::string models = SharedFolder() + "/models";
    const std::string file = models + "/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
    const auto imported = ImportGguf(file, dir_);
    ASSERT_TRUE(imported.ok()) << imported.status().ToString();
    EXPECT_EQ(imported->parameters, 134'515'008);
    const auto reference =
        nlohmann::json::parse(ReadFileBounded(models + "/reference.json", 64 << 20).value());
    for (const auto& c : reference.at("cases")) cases_.push_back(c);
    std::sort(cases_.begin(), cases_.end(), [](const auto& a, const auto& b) {
      return a["ids"].size() + a["greedy"].size() < b["ids"].size() + b["greedy"].size();
    });
  }

  // Those there is time for.
  std::vector<nlohmann::json> Chosen() const {
    if (std::getenv("TIDEMILL_ALL_PROMPTS") != nullptr) return cases_;
    std::vector<nlohmann::json> chosen;
    size_t tokens = 0;
    for (const auto& c : cases_) {
      tokens += c["ids"].size() + 2 * c["greedy"].size();
      if (tokens > kQuickTokens && !chosen.empty()) break;
      chosen.push_back(c);
    }
    return chosen;
  }

  static std::vector<TokenId> Greedy(std::shared_ptr<const PolicyWeights> weights,
                                     const std::vector<TokenId>& prompt, size_t count,
                                     const std::vector<TokenId>& ends) {
    EngineOptions options;
    options.max_context = static_cast<int32_t>(prompt.size() + count + 1);
    options.max_sequences = 1;
    options.cache_bytes = uint64_t{1} << 40;
    TurnParams turn{.max_new_tokens = static_cast<int32_t>(count)};
    turn.sampling.temperature = 0;
    turn.stop_ids = ends;
    const auto engine = NewEngine(std::move(weights), 0, options).value();
    EXPECT_TRUE(engine->Add({.id = 1, .prompt = prompt, .turn = turn}).ok());
    while (engine->Work()) {
      auto finished = engine->Step().value();
      if (!finished.empty()) return finished.front().ids;
    }
    return {};
  }

  TemporaryDirectory directory_;
  const std::string dir_ = directory_ / "model";
  std::vector<nlohmann::json> cases_;
};

TEST_F(ImportedModel, GivesWhatTheReferenceImplementationGives) {
  const Tokenizer tokenizer = Tokenizer::Read(dir_).value();
  for (const auto& c : cases_) {
    EXPECT_EQ(tokenizer.Encode(c["text"].get<std::string>(), SpecialTokens::kRecognise),
              c["ids"].get<std::vector<TokenId>>())
        << c["name"];
  }
  const ModelTemplate chat = ReadModelTemplate(dir_).value();
  for (const auto& c : cases_) {
    if (!c.contains("messages")) continue;
    const auto rendered = chat.Render({.messages = c["messages"], .add_generation_prompt = true});
    ASSERT_TRUE(rendered.ok()) << rendered.status().ToString();
    EXPECT_EQ(rendered->text, c["text"].get<std::string>()) << c["name"];
    EXPECT_EQ(EncodeRendered(tokenizer, *rendered), c["ids"].get<std::vector<TokenId>>());
  }
  const auto ends = ReadGenerationConfig(dir_).value().eos_token_ids;
  EXPECT_EQ(ends, std::vector<int32_t>{2});
  const auto weights = PolicyWeights::Load(dir_, {.device = "cpu", .dtype = Dtype::kF32}).value();
  for (const auto& c : Chosen()) {
    SCOPED_TRACE(c["name"]);
    const auto ids = c["ids"].get<std::vector<TokenId>>();
    const auto expected = c["logprobs"].get<std::vector<float>>();
    const auto logprobs = ScoreTokens(*weights, ids).value();
    ASSERT_EQ(logprobs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(logprobs[i], expected[i], 1e-4) << i;
    const auto greedy = c["greedy"].get<std::vector<TokenId>>();
    EXPECT_EQ(Greedy(weights, ids, greedy.size(), ends), greedy);
  }
}

// The mean over all positions of KL(float32 || int8), and that the engine draws from the latter.
TEST_F(ImportedModel, InEightBitsIsCloseToItselfInFloat32) {
  const at::NoGradGuard no_grad;
  const auto weights = PolicyWeights::Load(dir_, {.device = "cpu", .dtype = Dtype::kF32}).value();
  const auto rounded = RoundedToSteps(*weights);
  double divergence = 0, positions = 0;
  std::vector<TokenId> ids;
  for (const auto& c : Chosen()) {
    ids = c["ids"].get<std::vector<TokenId>>();
    const auto logprobs = [&](const PolicyWeights& of) {
      const at::Tensor hidden = ForwardHidden(of.config(), of.view(), Pack({ids}));
      return at::log_softmax(Logits(of.view(), hidden), 1);
    };
    const at::Tensor p = logprobs(*weights), q = logprobs(*rounded);
    divergence += (p.exp() * (p - q)).sum().item<double>();
    positions += static_cast<double>(ids.size());
  }
  RecordProperty("kl", std::to_string(divergence / positions));
  EXPECT_LT(divergence / positions, 0.01);
  EXPECT_GT(divergence / positions, 0);
  EngineOptions options{.max_context = 1024, .int8_weights = true};
  const auto engine = NewEngine(weights, 0, options).value();
  ASSERT_TRUE(engine->Add({.id = 1, .prompt = ids, .turn = {.max_new_tokens = 6, .seed = 3}}).ok());
  TurnOutput turn;
  while (engine->Work()) {
    for (TurnOutput& done : engine->Step().value()) turn = std::move(done);
  }
  const size_t before = ids.size();
  ids.insert(ids.end(), turn.ids.begin(), turn.ids.end());
  const auto expected = ScoreTokens(*rounded, ids).value();
  for (size_t i = 0; i < turn.ids.size(); ++i) {
    EXPECT_NEAR(turn.logprobs[i], expected[before - 1 + i], 1e-3) << i;
  }
}

}  // namespace
}  // namespace tidemill
