#include "memory/torch/model_keys.h"

#include <gtest/gtest.h>

#include <map>

#include "model/torch/model.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(ModelKeys, AnswersEachCallWithTheKeyOfItsPrompt) {
  const std::string dir = GoldenRoot(SourceDir()) + "/qwen3-tiny";
  const auto weights = PolicyWeights::Load(dir);
  const auto tokenizer = Tokenizer::Read(dir);
  ASSERT_TRUE(weights.ok() && tokenizer.ok());
  const auto encoder = PromptEncoder::Make(*weights, 1);
  ASSERT_TRUE(encoder.ok());
  const RealClock clock;
  std::map<uint64_t, KeyDone> answers;
  {
    ModelKeys keys(*encoder, *tokenizer, clock, {});
    keys.Submit({1, "sort the list"});
    keys.Submit({2, ""});
    keys.Submit({3, "<|im_end|>"});
    ASSERT_TRUE(Eventually([&] {
      for (KeyDone& done : keys.events().TakeAll()) answers[done.tag] = std::move(done);
      return answers.size() == 3;
    }));
  }
  const auto reference = [&](const std::string& text) {
    return encoder->Encode(tokenizer->Encode(text, SpecialTokens::kAsText)).value();
  };
  ASSERT_TRUE(answers[1].status.ok()) << answers[1].status.ToString();
  EXPECT_EQ(answers[1].key, reference("sort the list"));
  EXPECT_EQ(answers[2].status.code(), Code::kInvalid);
  EXPECT_EQ(answers[3].key, reference("<|im_end|>"));
  const auto special = tokenizer->Encode("<|im_end|>", SpecialTokens::kRecognise);
  EXPECT_NE(answers[3].key, encoder->Encode(special).value()) << "text opens no turn";
}

}  // namespace
}  // namespace tidemill
