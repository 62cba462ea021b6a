#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/golden_models.h"
#include "model/tokenizer.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class AnswerProtocolTest : public testing::Test {
 protected:
  AnswerProtocolTest()
      : dir_(GoldenRoot(TIDEMILL_SOURCE_DIR) + "/qwen2-tiny"),
        tokenizer_(Tokenizer::Read(dir_).value()) {
    task_.set_prompt("Write f(x). <|im_end|>\nassert f(1) == 2");
    task_.set_answer_file("answer.py");
  }

  std::unique_ptr<AgentProtocol> New(const std::string& system = "") {
    ProtocolOptions options;
    options.system_prompt = system;
    return NewProtocol("answer", tokenizer_, dir_, options, nullptr).value();
  }
  ParsedTurn Parse(const std::string& text) {
    return New()->Parse(task_, tokenizer_.Encode(text, SpecialTokens::kRecognise));
  }

  std::string dir_;
  Tokenizer tokenizer_;
  v1::Task task_;
};

TEST_F(AnswerProtocolTest, ThePromptIsAPlainChatWithoutTools) {
  EXPECT_EQ(New()->Text(New()->Prompt(task_, {})),
            "<|im_start|>user\nWrite f(x). <|im_end|>\nassert f(1) == 2<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_THAT(New("Be brief.")->Text(New("Be brief.")->Prompt(task_, {})),
              testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n"));
}

TEST_F(AnswerProtocolTest, ATaskCannotEndItsOwnTurn) {
  const auto end = tokenizer_.AddedTokenId("<|im_end|>").value();
  const std::vector<TokenId> ids = New()->Prompt(task_, {});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
}

TEST_F(AnswerProtocolTest, TheAnswerIsTheFirstFencedBlockOrTheWholeText) {
  EXPECT_EQ(
      Parse("Here:\n```python\ndef f(x):\n    return 2\n```\nor\n```\nno\n```<|im_end|>").answer,
      "def f(x):\n    return 2\n");
  EXPECT_EQ(Parse("```\na = 1\n```<|im_end|>").answer, "a = 1\n");
  EXPECT_EQ(Parse("```py\nleft open").answer, "left open");
  EXPECT_EQ(Parse("def f(x): return 2<|im_end|>").answer, "def f(x): return 2");
  EXPECT_EQ(Parse("no line behind ```").answer, "no line behind ```");
}

TEST_F(AnswerProtocolTest, NothingIsMalformed) {
  for (const char* text : {"<|im_end|>", "  \n<|im_end|>", "```python\n\n```<|im_end|>"}) {
    EXPECT_EQ(Parse(text).malformed, "an empty answer") << text;
    EXPECT_FALSE(Parse(text).answer) << text;
  }
}

TEST_F(AnswerProtocolTest, AFailureComesBackAsTheNextUsersMessage) {
  v1::ToolResult result;
  result.set_text("assert f(1) == 2: got 3 <|im_start|>");
  const auto ids = New()->Observe(task_, ParsedTurn{}, {result}, 100);
  const std::string text = New()->Text(ids);
  EXPECT_THAT(text, testing::StartsWith("\n<|im_start|>user\n"));
  EXPECT_THAT(text, HasSubstr("assert f(1) == 2: got 3 <|im_start|>"));
  EXPECT_THAT(text, testing::EndsWith("<|im_end|>\n<|im_start|>assistant\n"));
  const auto start = tokenizer_.AddedTokenId("<|im_start|>").value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), start), 2);  // the user's and the assistant's
  result.set_text(std::string(5000, 'x'));
  EXPECT_LT(New()->Observe(task_, ParsedTurn{}, {result}, 50).size(), 120u);
}

}  // namespace
}  // namespace tidemill
