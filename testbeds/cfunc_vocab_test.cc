#include "testbeds/cfunc_vocab.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "testbeds/cfunc.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using nlohmann::json;

// Longest lexeme first from the left, single bytes elsewhere: how added tokens are cut out of a
// text.
size_t CountTokens(const std::string& text, const std::map<std::string, int>& lexemes) {
  size_t tokens = 0;
  for (size_t at = 0; at < text.size(); ++tokens) {
    size_t longest = 1;
    for (const auto& [lexeme, id] : lexemes) {
      if (lexeme.size() > longest && text.compare(at, lexeme.size(), lexeme) == 0) {
        longest = lexeme.size();
      }
    }
    at += longest;
  }
  return tokens;
}

std::map<std::string, int> AddedTokens() {
  std::map<std::string, int> lexemes;
  const json tokenizer = json::parse(LexemeTokenizerJson(CfuncLexemes()));
  for (const json& added : tokenizer["added_tokens"]) {
    lexemes[added["content"]] = added["id"];
  }
  return lexemes;
}

TEST(CfuncVocab, EachValueAndEachLexemeIsOneToken) {
  CfuncOptions options;
  options.count = 200;
  const auto problems = GenerateCfunc(options);
  ASSERT_TRUE(problems.ok());
  const auto lexemes = AddedTokens();
  for (const CfuncProblem& problem : *problems) {
    EXPECT_EQ(CountTokens(CfuncPrompt(problem), lexemes), 2u + kCfuncCommon + 2u * kCfuncVaried);
    EXPECT_EQ(CountTokens(CfuncFeedback(problem.further[0]), lexemes), 4u);
    EXPECT_EQ(CountTokens(ExprText(problem.expr), lexemes), ExprText(problem.expr).size());
  }
}

TEST(CfuncVocab, IdsFollowTheBytesAndOnlyTurnMarksAreSpecial) {
  const json tokenizer = json::parse(LexemeTokenizerJson(CfuncLexemes()));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 256u);
  EXPECT_EQ(tokenizer["model"]["vocab"]["a"], 'a');
  EXPECT_EQ(tokenizer["model"]["vocab"]["\u0120"], ' ');  // the alphabet's spelling of a space
  int expected = 256;
  for (const json& added : tokenizer["added_tokens"]) {
    EXPECT_EQ(added["id"], expected++);
    const std::string content = added["content"];
    EXPECT_EQ(added["special"].get<bool>(), content == kCfuncEnd || content == kCfuncFail);
  }
  const TemporaryDirectory dir;
  ASSERT_TRUE(WriteLexemeModelFiles(dir.path(), CfuncLexemes(), {}).ok());
  std::ifstream config(dir / "config.json");
  EXPECT_EQ(json::parse(config)["vocab_size"], expected);
}

TEST(CfuncVocab, WritesADirectoryAndRefusesImpossibleShapes) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(WriteLexemeModelFiles(dir.path(), CfuncLexemes(), {}).ok());
  std::ifstream config(dir / "config.json");
  EXPECT_EQ(json::parse(config)["model_type"], "qwen2");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    std::ifstream file(dir / name);
    EXPECT_TRUE(json::accept(file)) << name;
  }
  FamilyModelShape shape;
  shape.heads = 5;
  EXPECT_EQ(WriteLexemeModelFiles(dir / "none", CfuncLexemes(), shape).code(), Code::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

TEST(CfuncVocab, CountsParametersAsTheirShapesSay) {
  FamilyModelShape shape;
  shape.hidden_size = 8;
  shape.intermediate_size = 16;
  shape.layers = 1;
  shape.heads = 2;
  const auto vocabulary = static_cast<int64_t>(256 + CfuncLexemes().size());
  // Embedding, q k v with biases, o, gate and up and down, two norms, the last norm.
  const int64_t expected = vocabulary * 8 + 3 * (64 + 8) + 64 + 3 * 128 + 16 + 8;
  EXPECT_EQ(LexemeParameterCount(CfuncLexemes().size(), shape), expected);
}

}  // namespace
}  // namespace tidemill
