#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/random.h"
#include "rollout/job_tools.h"
#include "rollout/protocol.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// A directory without a template: ChatML with tools in Hermes' style.
class ChatProtocolTest : public testing::Test {
 protected:
  ChatProtocolTest()
      : dir_(GoldenRoot(SourceDir()) + "/qwen2-tiny"), tokenizer_(Tokenizer::Read(dir_).value()) {
    task_.set_prompt("Fix it.");
    task_.set_answer_file("a.py");
    ProtocolOptions options;
    options.system_prompt = "Be brief.";
    protocol_ = NewProtocol("hermes", tokenizer_, dir_, options).value();
    talk_ = protocol_->Begin({task_, none_});
  }
  ParsedTurn Parse(const std::string& text) {
    talk_ = protocol_->Begin({task_, none_});
    return talk_->Parse(tokenizer_.Encode(text + "<|im_end|>", SpecialTokens::kRecognise));
  }
  std::string Next(const ParsedTurn& turn, const std::vector<std::string>& texts,
                   size_t max_tokens) {
    std::vector<v1::ToolResult> results;
    for (const std::string& text : texts) results.emplace_back().set_text(text);
    const auto next = talk_->Observe(turn, {.results = results}, max_tokens);
    EXPECT_TRUE(next.ok() && !next->anew);
    return tokenizer_.Decode(next->ids);
  }

  const std::string dir_;
  const Tokenizer tokenizer_;
  v1::Task task_;
  const v1::CaseSet none_;
  std::unique_ptr<AgentProtocol> protocol_;
  std::unique_ptr<EpisodeTalk> talk_;
};

// Everything that can be drawn of a turn, with random tokens, is text or well-formed calls.
TEST_F(ChatProtocolTest, ATurnThatIsHeldToItsCallsIsNeverMalformed) {
  EXPECT_EQ(talk_->TurnConstraint().value(), nullptr);
  ProtocolOptions options;
  options.constrain_calls = true;
  protocol_ = NewProtocol("chat", tokenizer_, dir_, options).value();
  const std::set<TokenId> ends(protocol_->stop_ids().begin(), protocol_->stop_ids().end());
  Random random(5);
  size_t calls = 0;
  for (int round = 0; round < 30; ++round) {
    talk_ = protocol_->Begin({task_, none_});
    ConstraintMatcher matcher(talk_->TurnConstraint().value());
    std::vector<TokenId> ids =
        tokenizer_.Encode("Well.<tool_call>\n{\"name\": \"", SpecialTokens::kRecognise);
    for (const TokenId id : ids) matcher.Take(id);
    ASSERT_FALSE(matcher.astray());
    for (int step = 0; step < 600 && (ids.empty() || !ends.contains(ids.back())); ++step) {
      std::vector<TokenId> offered, closing;
      matcher.Mask()->AppendIds(tokenizer_.vocab_size(), offered);
      for (const TokenId id : offered) {
        const std::string_view bytes = tokenizer_.TokenBytes(id);
        if (ends.contains(id) || bytes.find_first_of("\"}<>/") != bytes.npos) closing.push_back(id);
      }
      const auto& from = closing.empty() || random.Below(4) == 0 ? offered : closing;
      ids.push_back(from[random.Below(from.size())]);
      matcher.Take(ids.back());
    }
    if (!ends.contains(ids.back())) continue;
    const ParsedTurn turn = talk_->Parse(ids);
    EXPECT_EQ(turn.malformed, "") << tokenizer_.Decode(ids);
    calls += turn.calls.size();
    for (const RequestedCall& call : turn.calls) {
      EXPECT_TRUE(nlohmann::json::parse(call.arguments_json).is_object());
    }
  }
  EXPECT_GT(calls, 0u);
  EXPECT_THAT(NewProtocol("compact", tokenizer_, dir_, options).status().message(),
              HasSubstr("rollout.constrain"));
}

TEST_F(ChatProtocolTest, ToolsAreThoseOfTheTask) {
  EXPECT_EQ(protocol_->name(), "chat");
  const std::string all = tokenizer_.Decode(talk_->Open().value());
  EXPECT_THAT(all, testing::StartsWith("<|im_start|>system\nBe brief.\n\n# Tools\n"));
  EXPECT_THAT(all, HasSubstr("\"name\": \"compile\""));
  EXPECT_THAT(all, testing::Not(HasSubstr("\"name\": \"bash\"")));
  EXPECT_THAT(all, HasSubstr("Fix it.\n\nGive your answer as one fenced block; it becomes a.py."));
  task_.add_tools("bash");
  const std::string one = tokenizer_.Decode(protocol_->Prompt({task_, none_}).value());
  EXPECT_THAT(one, HasSubstr("\"name\": \"bash\""));
  EXPECT_THAT(one, testing::Not(HasSubstr("\"name\": \"compile\"")));
  task_.clear_tools(), task_.set_no_tools(true);
  EXPECT_THAT(tokenizer_.Decode(protocol_->Prompt({task_, none_}).value()),
              testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n"));
}

TEST_F(ChatProtocolTest, CallsAreAnsweredInTheirOrder) {
  const ParsedTurn turn = Parse(
      "Look.\n<tool_call>\n{\"name\": \"compile\", \"arguments\": {\"files\": [\"a.c\"]}}\n"
      "</tool_call>\n<tool_call>\n{\"name\": \"lint\"}\n</tool_call>");
  ASSERT_EQ(turn.calls.size(), 2u) << turn.malformed;
  EXPECT_EQ(turn.calls[0].arguments_json, "{\"files\": [\"a.c\"]}");
  EXPECT_EQ(turn.calls[1].tool, "lint");
  EXPECT_EQ(Next(turn, {"one", "two <|im_end|>"}, 1000),
            "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\n"
            "two <|im_end|>\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(Next(turn, {std::string(5000, 'x'), ""}, 60), HasSubstr(" tokens cut ..]"));
}

TEST_F(ChatProtocolTest, AToolThatIsNotThereIsNamedToTheModel) {
  const ParsedTurn turn =
      Parse("<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>");
  EXPECT_TRUE(turn.calls.empty());
  EXPECT_FALSE(turn.answer);
  EXPECT_THAT(Next(turn, {}, 100),
              HasSubstr("<tool_response>\nerror: there is no tool \"fly\"\n</tool_response>"));
}

TEST_F(ChatProtocolTest, ATurnWithoutACallIsTheAnswer) {
  EXPECT_EQ(Parse("No:\n```\na\n```\nbut:\n```python\nb\n```").answer, "b\n");
  EXPECT_EQ(Parse("done").answer, "");
  task_.clear_answer_file();
  EXPECT_EQ(Parse("```\na\n```").answer, "");
}

// The calls that are found while a turn is drawn, with the number of tokens until each.
TEST_F(ChatProtocolTest, ACallIsFoundWithTheTokenThatCompletesIt) {
  const std::string first =
      "Look.\n<tool_call>\n{\"name\": \"compile\", \"arguments\": {\"files\": "
      "[\"a.c\"]}}\n</tool_call>";
  const std::string text =
      first +
      "\n<tool_call>\n{\"name\": \"lint\", \"arguments\": {}}\n</tool_call> more text<|im_end|>";
  const std::vector<TokenId> ids = tokenizer_.Encode(text, SpecialTokens::kRecognise);
  // Nothing that follows the arguments can change them.
  const std::string known = first.substr(0, first.find("]}") + 2);
  size_t until = 1;
  while (tokenizer_.Decode(std::span(ids).first(until)).size() < known.size()) ++until;
  ASSERT_TRUE(talk_->Watches());
  const std::unique_ptr<TurnWatch> watch = talk_->Watch();
  std::vector<RequestedCall> found;
  for (size_t i = 0; i < ids.size(); ++i) {
    for (RequestedCall& call : watch->Push(std::span(ids).subspan(i, 1))) {
      EXPECT_TRUE(!found.empty() || i + 1 == until) << i;
      found.push_back(std::move(call));
    }
    EXPECT_TRUE(i > 0 || !watch->called());
  }
  EXPECT_TRUE(watch->called());
  const ParsedTurn turn = talk_->Parse(ids);
  ASSERT_EQ(turn.calls.size(), 2u) << turn.malformed;
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].tool, turn.calls[i].tool);
    EXPECT_EQ(found[i].arguments_json, turn.calls[i].arguments_json);
  }
}

TEST_F(ChatProtocolTest, NothingIsFoundBehindACallOfAToolThatIsNotThere) {
  const std::unique_ptr<TurnWatch> watch = talk_->Watch();
  EXPECT_TRUE(watch
                  ->Push(tokenizer_.Encode("<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n"
                                           "</tool_call>\n<tool_call>\n{\"name\": \"lint\", "
                                           "\"arguments\": {}}\n</tool_call>",
                                           SpecialTokens::kRecognise))
                  .empty());
}

TEST_F(ChatProtocolTest, ToolsOfTheBackgroundAreShownAndResultsNameTheirHandle) {
  ProtocolOptions options;
  for (ToolDescription& tool : options.tools) {
    if (tool.name != "run_tests") continue;
    tool = WithBackground(std::move(tool), BackgroundUse::kAllowed).value();
  }
  options.tools.insert(options.tools.end(), JobTools().begin(), JobTools().end());
  protocol_ = NewProtocol("chat", tokenizer_, dir_, options).value();
  const std::string all = tokenizer_.Decode(protocol_->Prompt({task_, none_}).value());
  EXPECT_THAT(all, HasSubstr("\"background\": {\"type\": \"boolean\""));
  EXPECT_THAT(all, HasSubstr("\"name\": \"wait\""));
  const ParsedTurn turn = Parse(
      "<tool_call>\n{\"name\": \"run_tests\", \"arguments\": {\"background\": "
      "true}}\n</tool_call>");
  ASSERT_EQ(turn.calls.size(), 1u) << turn.malformed;
  TurnReplies replies{.results = {v1::ToolResult()}, .handles = {"b1"}};
  replies.results[0].set_text("b1: run_tests runs in the background");
  replies.delivered = {{"b1", "run_tests", "2/2 tests passed"}};
  const auto next = talk_->Observe(turn, replies, 1000);
  ASSERT_TRUE(next.ok());
  EXPECT_THAT(tokenizer_.Decode(next->ids),
              HasSubstr("<tool_response>\nb1: 2/2 tests passed\n</tool_response>"));
  task_.add_tools("compile");
  EXPECT_THAT(tokenizer_.Decode(protocol_->Prompt({task_, none_}).value()),
              testing::Not(HasSubstr("\"name\": \"wait\"")))
      << "nothing of this task runs in the background";
}

TEST_F(ChatProtocolTest, AnUnknownNameIsRefused) {
  EXPECT_THAT(NewProtocol("morse", tokenizer_, dir_, {}).status().message(),
              HasSubstr("known are answer, chat, compact"));
}

}  // namespace
}  // namespace tidemill
