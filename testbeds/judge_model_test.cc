#include "testbeds/judge_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_config.h"
#include "model/tokenizer.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TEST(JudgeModel, ItsFilesAreAModelDirectoryWhoseTokenizerReadsAnyText) {
  TemporaryDirectory folder;
  const std::string corpus = "goal: f(1,2) must be 3.\nnext: it gives 4. thanks\nverdict:bad\n";
  std::string many;
  for (int i = 0; i < 50; ++i) many += corpus;
  ASSERT_TRUE(WriteJudgeModelFiles(folder / "m", {}, many).ok());
  const auto config = ReadModelConfig(folder / "m");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const auto tokenizer = Tokenizer::Read(folder / "m");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  for (const std::string& text : {corpus, std::string("never seen: \xc3\xa4 42")}) {
    const std::vector<TokenId> ids = tokenizer->Encode(text, SpecialTokens::kAsText);
    EXPECT_EQ(tokenizer->Decode(ids), text);
    for (const TokenId id : ids) EXPECT_LT(id, config->vocab_size);
  }
  EXPECT_LT(tokenizer->Encode(corpus, SpecialTokens::kAsText).size(), corpus.size());
}

TEST(JudgeModel, RefusesAShapeThatHasNoHeads) {
  TemporaryDirectory folder;
  const Status status = WriteJudgeModelFiles(folder / "m", {.width = 90, .heads = 4}, "x");
  EXPECT_THAT(status.message(), HasSubstr("an even multiple of the heads, got 90 and 4"));
}

}  // namespace
}  // namespace tidemill
