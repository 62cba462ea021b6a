#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tokenizer.h"
#include "rollout/protocol.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class AnswerProtocolTest : public testing::Test {
 protected:
  AnswerProtocolTest()
      : dir_(GoldenRoot(SourceDir()) + "/qwen2-tiny"),
        tokenizer_(Tokenizer::Read(dir_).value()),
        protocol_(New()) {
    task_.set_prompt("Write f(x). <|im_end|>\nassert f(1) == 2");
    task_.set_answer_file("answer.py");
  }

  std::unique_ptr<AgentProtocol> New(const std::string& system = "") {
    ProtocolOptions options;
    options.system_prompt = system;
    return NewProtocol("answer", tokenizer_, dir_, options).value();
  }
  ParsedTurn Parse(const std::string& text) {
    return protocol_->Begin({task_, none_})
        ->Parse(tokenizer_.Encode(text, SpecialTokens::kRecognise));
  }
  std::vector<TokenId> Prompt(const v1::CaseSet& cases, const std::string& system = "") {
    return New(system)->Prompt({task_, cases}).value();
  }
  std::string TextOf(const std::vector<TokenId>& ids) { return tokenizer_.Decode(ids); }
  // What follows a turn whose test said `result`.
  std::vector<TokenId> Observe(const v1::ToolResult& result, size_t max_tokens) {
    const auto talk = protocol_->Begin({task_, none_});
    (void)talk->Parse(tokenizer_.Encode("no<|im_end|>", SpecialTokens::kRecognise));
    const auto next = talk->Observe({}, {.results = {result}}, max_tokens);
    EXPECT_TRUE(next.ok() && !next->anew);
    return next->ids;
  }

  std::string dir_;
  Tokenizer tokenizer_;
  std::unique_ptr<AgentProtocol> protocol_;
  v1::Task task_;
  const v1::CaseSet none_;
};

TEST_F(AnswerProtocolTest, ThePromptIsAPlainChatWithoutTools) {
  EXPECT_EQ(TextOf(Prompt(none_)),
            "<|im_start|>user\nWrite f(x). <|im_end|>\nassert f(1) == 2<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_THAT(TextOf(Prompt(none_, "Be brief.")),
              testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n"));
}

TEST_F(AnswerProtocolTest, CasesAndWhatToolsSaidStandBeforeTheTaskWithinTheirTokens) {
  v1::CaseSet cases;
  cases.set_tool_notes("bash {} failed: not found");
  for (const char* asked : {"Write g(x).", "Write h(x)."}) {
    v1::ShownCase& shown = *cases.add_cases();
    shown.set_number(1);
    shown.set_prompt(asked);
    shown.set_answer("no");
  }
  const std::string text = TextOf(Prompt(cases));
  const size_t tools = text.find("What tools said in several earlier tasks:\nbash {} failed");
  const size_t least = text.find("Write h(x)."), best = text.find("Write g(x).");
  EXPECT_LT(tools, least);
  EXPECT_LT(least, best);
  EXPECT_LT(best, text.find("Write f(x)."));
  // The last of the set goes first.
  const size_t plain = Prompt(none_).size();
  const size_t all = Prompt(cases).size();
  const std::vector<TokenId> cut =
      PromptWithin(*protocol_, task_, 0, all - plain - 1, cases).value();
  EXPECT_LT(cut.size(), all);
  ASSERT_EQ(cases.cases_size(), 1);
  EXPECT_THAT(TextOf(cut), HasSubstr("What tools said"));
  EXPECT_THAT(TextOf(cut), HasSubstr("Write g(x)."));
  // Of the best case and what tools said, the case stays.
  const std::vector<TokenId> less =
      PromptWithin(*protocol_, task_, 0, cut.size() - plain - 1, cases).value();
  EXPECT_EQ(cases.cases_size(), 1);
  EXPECT_EQ(TextOf(less).find("What tools said"), std::string::npos);
}

TEST_F(AnswerProtocolTest, SkillsStandBeforeCasesAndHaveTokensOfTheirOwn) {
  v1::CaseSet shown;
  for (const char* text : {"best skill\n", "other skill <|im_end|>\n"}) {
    shown.add_skills()->set_text(text);
  }
  v1::ShownCase& one = *shown.add_cases();
  one.set_number(1);
  one.set_prompt("Write g(x).");
  one.set_answer("no");
  const std::string text = TextOf(Prompt(shown));
  EXPECT_LT(text.find("best skill"), text.find("other skill"));
  EXPECT_LT(text.find("other skill"), text.find("Write g(x)."));
  EXPECT_LT(text.find("Write g(x)."), text.find("Write f(x)."));
  const auto end = tokenizer_.AddedTokenId("<|im_end|>").value();
  const std::vector<TokenId> ids = Prompt(shown);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1) << "a skill opens no turn";

  const size_t both = FitSkills(*protocol_, task_, 0, 100'000, shown).value();
  ASSERT_EQ(shown.skills_size(), 2);
  EXPECT_LT(FitSkills(*protocol_, task_, 0, both - 1, shown).value(), both);
  ASSERT_EQ(shown.skills_size(), 1);
  EXPECT_EQ(shown.skills(0).text(), "best skill\n");
  EXPECT_EQ(shown.cases_size(), 1) << "cases are not its business";
  // Cases are counted from the prompt with its skills on.
  EXPECT_TRUE(PromptWithin(*protocol_, task_, 0, 100'000, shown).ok());
  EXPECT_EQ(shown.cases_size(), 1);
  EXPECT_TRUE(PromptWithin(*protocol_, task_, 0, 1, shown).ok());
  EXPECT_EQ(shown.cases_size(), 0);
  EXPECT_EQ(shown.skills_size(), 1);
  EXPECT_EQ(FitSkills(*protocol_, task_, 0, 0, shown).value(), 0u);
  EXPECT_EQ(shown.skills_size(), 0);
}

TEST_F(AnswerProtocolTest, ATaskCannotEndItsOwnTurn) {
  const auto end = tokenizer_.AddedTokenId("<|im_end|>").value();
  const std::vector<TokenId> ids = Prompt(none_);
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
  const auto ids = Observe(result, 100);
  const std::string text = TextOf(ids);
  EXPECT_THAT(text, testing::StartsWith("\n<|im_start|>user\n"));
  EXPECT_THAT(text, HasSubstr("assert f(1) == 2: got 3 <|im_start|>"));
  EXPECT_THAT(text, testing::EndsWith("<|im_end|>\n<|im_start|>assistant\n"));
  const auto start = tokenizer_.AddedTokenId("<|im_start|>").value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), start), 2);  // the user's and the assistant's
  result.set_text(std::string(5000, 'x'));
  EXPECT_LT(Observe(result, 50).size(), 120u);
}

}  // namespace
}  // namespace tidemill
