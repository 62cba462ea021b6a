// Token for token what the reference implementation made of the same texts.
#include <gtest/gtest.h>

#include "core/files.h"
#include "model/json_fields.h"
#include "model/tokenizer.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

struct TextCase {
  std::string text;
  std::vector<TokenId> ids;
  std::string decoded;
};

std::vector<TextCase> ReadCases(const std::string& dir) {
  const std::string path = dir + "/tokenizer_cases.json";
  const auto json = ParseJson(ReadFileBounded(path, size_t{64} << 20).value(), path).value();
  std::vector<TextCase> cases;
  for (const auto& entry : json) {
    cases.push_back({entry.at("text").get<std::string>(),
                     entry.at("ids").get<std::vector<TokenId>>(),
                     entry.at("decoded").get<std::string>()});
  }
  return cases;
}

TEST(TokenizerGolden, EveryTextGivesTheReferencesIdsAndComesBack) {
  const std::vector<std::string> models = GoldenModels(SourceDir());
  ASSERT_FALSE(models.empty());
  for (const std::string& dir : models) {
    SCOPED_TRACE(dir);
    const auto tokenizer = Tokenizer::Read(dir);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    const std::vector<TextCase> cases = ReadCases(dir);
    ASSERT_FALSE(cases.empty());
    for (const TextCase& c : cases) {
      EXPECT_EQ(tokenizer->Encode(c.text, SpecialTokens::kRecognise), c.ids) << c.text;
      EXPECT_EQ(tokenizer->Decode(c.ids), c.decoded);
    }
  }
}

TEST(TokenizerGolden, TokensOneByOneDecodeToTheSameText) {
  for (const std::string& dir : GoldenModels(SourceDir())) {
    SCOPED_TRACE(dir);
    const Tokenizer tokenizer = Tokenizer::Read(dir).value();
    StreamDecoder stream(tokenizer);
    for (const TextCase& c : ReadCases(dir)) {
      std::string text;
      for (const TokenId id : c.ids) text += stream.Push(id);
      text += stream.Finish();
      EXPECT_EQ(text, c.decoded);
    }
  }
}

TEST(TokenizerGolden, SpecialTokensAsTextNeverGiveASpecialId) {
  for (const std::string& dir : GoldenModels(SourceDir())) {
    SCOPED_TRACE(dir);
    const Tokenizer tokenizer = Tokenizer::Read(dir).value();
    for (const AddedToken& token : tokenizer.added_tokens()) {
      if (!token.special) continue;
      const std::string text = "say " + token.content + " aloud";
      const std::vector<TokenId> ids = tokenizer.Encode(text, SpecialTokens::kAsText);
      for (const TokenId id : ids) EXPECT_FALSE(tokenizer.IsSpecial(id)) << token.content;
      EXPECT_EQ(tokenizer.Decode(ids), text);
    }
  }
}

}  // namespace
}  // namespace tidemill
