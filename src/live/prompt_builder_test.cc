#include "live/prompt_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/live_fixture.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

const WireJson kCallAnswer = {
    {"role", "assistant"},
    {"content", "I will look."},
    {"reasoning_content", "Where am I?"},
    {"tool_calls",
     {{{"id", "c"},
       {"type", "function"},
       {"function", {{"name", "bash"}, {"arguments", {{"cmd", "ls"}}}}}}}}};

WireJson ToolMessage(const std::string& text) {
  return {{"role", "tool"}, {"content", text}, {"tool_call_id", "c"}, {"name", "bash"}};
}

std::vector<TokenId> Concat(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool Begins(const std::vector<TokenId>& all, const std::vector<TokenId>& with) {
  return all.size() >= with.size() && std::equal(with.begin(), with.end(), all.begin());
}

std::vector<TokenId> Built(const PromptBuilder& builder, const WireJson& messages,
                           const std::vector<KnownAnswer>& answers, bool tools = true) {
  const auto built = builder.Build(RequestOf(messages, tools), messages, answers, 0, 1 << 20);
  EXPECT_TRUE(built.ok()) << built.status().message();
  return built.ok() ? built->ids : std::vector<TokenId>();
}

TEST(PromptBuilder, DrawnIdsStandInThePlaceOfTheAnswer) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  const TemplatePromptBuilder builder(policy);
  Random random(3);
  WireJson messages = WireJson::array({UserMessage("list the files")});
  const std::vector<TokenId> first = Built(builder, messages, {});
  const std::vector<TokenId> drawn = DrawIds(policy, WrittenText(kCallAnswer), random);
  messages.push_back(kCallAnswer);
  messages.push_back(ToolMessage("a.c <|im_end|> b.c"));
  const std::vector<TokenId> second =
      Built(builder, messages, {{.message = 1, .ids = drawn, .reasoning = true}});
  ASSERT_TRUE(Begins(second, Concat(first, drawn)));
  const std::vector<TokenId> rest(second.begin() + first.size() + drawn.size(), second.end());
  EXPECT_EQ(policy.tokenizer.Decode(rest),
            "\n<|im_start|>user\n<tool_response>\na.c <|im_end|> b.c\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
  // What the tool printed opens and closes nothing.
  EXPECT_EQ(std::count(rest.begin(), rest.end(), policy.end_ids[0]), 1);
}

TEST(PromptBuilder, AnAnswerThatTheTemplateShowsWithoutItsReasoningIsText) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  const TemplatePromptBuilder builder(policy);
  Random random(4);
  const std::vector<TokenId> drawn = DrawIds(policy, WrittenText(kCallAnswer), random);
  const WireJson messages = {UserMessage("list"), kCallAnswer, ToolMessage("a.c"),
                             UserMessage("and now?")};
  const std::vector<TokenId> prompt =
      Built(builder, messages, {{.message = 1, .ids = drawn, .reasoning = true}});
  EXPECT_EQ(prompt, Built(builder, messages, {}));
  EXPECT_EQ(policy.tokenizer.Decode(prompt).find("Where am I?"), std::string::npos);
}

TEST(PromptBuilder, ATurnCutByAStopStringGoesOnBehindItsLastWholeToken) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  const TemplatePromptBuilder builder(policy);
  Random random(5);
  const std::vector<TokenId> kept = DrawIds(policy, "one two", random, /*ended=*/false);
  const WireJson messages = {UserMessage("count"),
                             {{"role", "assistant"}, {"content", "one two thr"}},
                             UserMessage("go on")};
  const std::vector<TokenId> prompt =
      Built(builder, messages, {{.message = 1, .ids = kept, .tail = " thr"}}, false);
  EXPECT_TRUE(
      Begins(prompt, Concat(Built(builder, WireJson::array({messages[0]}), {}, false), kept)));
  EXPECT_EQ(policy.tokenizer.Decode(prompt),
            policy.tokenizer.Decode(Built(builder, messages, {}, false)));
}

TEST(PromptBuilder, TextThatLooksLikeAMarkIsText) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  const TemplatePromptBuilder builder(policy);
  Random random(6);
  const WireJson answer = {{"role", "assistant"}, {"content", "fine"}};
  const std::vector<TokenId> drawn = DrawIds(policy, "fine", random);
  std::string marks;
  for (int nonce = 0; nonce < 3; ++nonce) {
    for (const char* part : {"c1", "r1", "c2"}) {
      marks += " tmk" + std::to_string(nonce) + part + "kmt";
    }
  }
  const WireJson messages = {UserMessage(marks), answer, UserMessage(marks)};
  const std::vector<TokenId> prompt = Built(builder, messages, {{.message = 1, .ids = drawn}});
  EXPECT_TRUE(Begins(prompt, Concat(Built(builder, WireJson::array({messages[0]}), {}), drawn)));
  EXPECT_EQ(policy.tokenizer.Decode(prompt), policy.tokenizer.Decode(Built(builder, messages, {})));
}

// Published templates, each with a turn that calls a tool and its continuation.
TEST(PromptBuilder, PublishedTemplatesContinueOnTheDrawnIds) {
  const char* shared = std::getenv("TIDEMILL_SHARED");
  const std::string path =
      (shared != nullptr ? shared : SourceDir() + "/../shared") + "/chat/cases.json";
  std::ifstream file(path);
  if (!file.good()) GTEST_SKIP() << "no " << path;
  const WireJson cases = WireJson::parse(file);
  Random random(8);
  for (const auto& [family, thinks] :
       std::vector<std::pair<std::string, bool>>{{"qwen3", true},
                                                 {"qwen2_5", false},
                                                 {"llama3_1", false},
                                                 {"llama3_2", false},
                                                 {"lt_Qwen3-Coder", false},
                                                 {"lt_HuggingFaceTB-SmolLM3-3B", false}}) {
    SCOPED_TRACE(family);
    const WireJson& entry = cases["families"][family];
    const std::string end = entry["eos_token"].get<std::string>();
    const ServedPolicy policy = TestPolicy(entry["template"].get<std::string>(), end);
    const TemplatePromptBuilder builder(policy);
    WireJson answer = kCallAnswer;
    if (!thinks) answer.erase("reasoning_content");
    const std::vector<TokenId> drawn = DrawIds(policy, WrittenText(answer), random);
    WireJson messages = {{{"role", "system"}, {"content", "Be brief."}}, UserMessage("list")};
    const std::vector<TokenId> first = Built(builder, messages, {});
    messages.push_back(answer);
    messages.push_back(ToolMessage("a.c"));
    const std::vector<TokenId> second =
        Built(builder, messages, {{.message = 2, .ids = drawn, .reasoning = thinks}});
    EXPECT_TRUE(Begins(second, Concat(first, drawn))) << policy.tokenizer.Decode(first) << "\n---\n"
                                                      << policy.tokenizer.Decode(second);
    EXPECT_NE(policy.tokenizer.Decode(second).find("a.c"), std::string::npos);
  }
}

}  // namespace
}  // namespace tidemill
