#include "tests/agents/forced_draws.h"

#include "model/model_config.h"
#include "testing/engine_check.h"
#include "testing/scripted_server.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

// One byte model for all engines of this program.
struct ByteModel {
  ByteModel() {
    TM_CHECK(WriteByteModel(dir.path(), 4096).ok(), "the model cannot be written");
    tokenizer.emplace(Tokenizer::Read(dir.path()).value());
  }
  static ByteModel& Get() {
    static ByteModel model;
    return model;
  }
  std::vector<TokenId> Ids(const std::string& text) const {
    return tokenizer->Encode(text, SpecialTokens::kRecognise);
  }
  TemporaryDirectory dir;
  std::optional<Tokenizer> tokenizer;
};

}  // namespace

std::unique_ptr<DecodeBackend> ReplaceBackend(std::unique_ptr<DecodeBackend> backend) {
  const AnswerScript script = [](const std::string& prompt) {
    return prompt.find("second") == std::string::npos ? "the first answer" : "another";
  };
  return NewForcedBackend(std::move(backend), ScriptedDraws(*ByteModel::Get().tokenizer, script));
}

namespace {

TEST(ForcedDraws, AnswersAreTheScriptsAndTheirLogProbabilitiesTheModels) {
  const ByteModel& model = ByteModel::Get();
  const auto config = ReadModelConfig(model.dir.path());
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto weights = PolicyWeights::NewRandom(*config, 3);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EngineRun run(*weights, {.max_context = 512, .cache_bytes = size_t{16} << 20});
  const std::string opened = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n";
  TurnParams turn;
  turn.stop_ids = model.Ids("<|im_end|>");
  for (SequenceId id = 1; id <= 3; ++id) {
    turn.sampling.temperature = id == 1 ? 1.0f : 0.7f;
    turn.sampling.top_logprobs = id == 3 ? 2 : -1;
    run.Add(id, model.Ids(opened), turn);
  }
  run.Finish();
  for (SequenceId id = 1; id <= 3; ++id) {
    EXPECT_EQ(run.Turn(id).ids, model.Ids("the first answer<|im_end|>"));
    EXPECT_EQ(run.Turn(id).finish, TurnFinish::kStop);
  }
  run.ExpectPlainLogprobs();
  ASSERT_EQ(run.Turn(3).top.size(), run.Turn(3).ids.size());
  EXPECT_EQ(run.Turn(3).top[0].size(), 2u);
  EXPECT_NEAR(run.Turn(3).model_logprobs[0], run.Turn(1).logprobs[0], 1e-4);
  // A later turn of the same sequence.
  run.Continue(1, model.Ids("\n<|im_start|>user\nsecond<|im_end|>\n<|im_start|>assistant\n"), turn);
  run.Finish();
  EXPECT_EQ(run.Turn(1).ids, model.Ids("another<|im_end|>"));
  run.ExpectPlainLogprobs();
}

}  // namespace
}  // namespace tidemill
