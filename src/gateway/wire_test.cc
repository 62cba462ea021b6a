// What the translators make of requests, good and bad.
#include "gateway/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/reasoning_seal.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

ChatRequest Accepted(Api api, const std::string& body) {
  ParsedRequest parsed = ParseRequest(api, body, {});
  EXPECT_TRUE(parsed.ok()) << parsed.error.message;
  return parsed.ok() ? std::move(*parsed.request) : ChatRequest{};
}

ApiError Refused(Api api, const std::string& body, const WireLimits& limits = {}) {
  const ParsedRequest parsed = ParseRequest(api, body, limits);
  EXPECT_FALSE(parsed.ok()) << body.substr(0, 200);
  EXPECT_EQ(parsed.error.status, 400);
  return parsed.error;
}

constexpr const char* kChatTurns = R"({"model":"m","messages":[
  {"role":"system","content":"S"},
  {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
  {"role":"assistant","content":null,"reasoning_content":"R","refusal":null,"tool_calls":[
    {"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{ \"x\" : 1 }"}},
    {"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},
  {"role":"tool","tool_call_id":"c1","content":"1","name":"other"},
  {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"2"}]},
  {"role":"user","content":"go on"}]})";

TEST(Wire, OneConversationIsTheSameByEveryApi) {
  const std::string responses = R"({"model":"m","instructions":"S","input":[
    {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
    {"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"R"}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}","status":"completed"},
    {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
    {"type":"function_call_output","call_id":"c1","output":"1"},
    {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},
    {"type":"message","role":"user","content":"go on"}]})";
  const std::string messages = R"({"model":"m","max_tokens":5,"system":[{"type":"text","text":"S"}],
    "messages":[
    {"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
                              {"type":"text","text":"b"}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"R","signature":"s"},
      {"type":"tool_use","id":"c1","name":"f","input":{"x":1}},
      {"type":"tool_use","id":"c2","name":"g","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"1"},
      {"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"2"}]},
      {"type":"text","text":"go on"}]}]})";
  const WireJson expected = WireJson::parse(R"([
    {"role":"system","content":"S"},
    {"role":"user","content":"a\nb"},
    {"role":"assistant","content":"","reasoning_content":"R","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},
      {"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},
    {"role":"tool","content":"1","tool_call_id":"c1","name":"f"},
    {"role":"tool","content":"2","tool_call_id":"c2","name":"g"},
    {"role":"user","content":"go on"}])");
  EXPECT_EQ(Accepted(Api::kChat, kChatTurns).messages, expected);
  EXPECT_EQ(Accepted(Api::kResponses, responses).messages, expected);
  EXPECT_EQ(Accepted(Api::kMessages, messages).messages, expected);
}

TEST(Wire, WrongTypesAreNamedByTheirPath) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":3}]}]})",
       "messages[0].content[0].text"},
      {R"({"model":"m","messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"model":"m","messages":["hi"]})", "messages[0]"},
      {R"({"model":"m","messages":[{"role":"robot","content":"x"}]})", "messages[0].role"},
      {R"({"model":"m","messages":[{"role":"tool","content":"x"}]})", "messages[0].tool_call_id"},
      {R"({"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]})",
       "messages[0].tool_calls[0].function"},
      {R"({"model":"m","messages":[{"role":"user","content":"x","extra":1}]})",
       "messages[0].extra"},
      {R"({"model":"m","messages":[]})", "messages"},
      {R"({"messages":[{"role":"user","content":"x"}]})", "model"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"temperature":"hot"})",
       "temperature"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"temperature":2.5})",
       "temperature"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"top_p":0})", "top_p"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"n":0})", "n"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"stop":["a",""]})", "stop"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"top_logprobs":2})",
       "top_logprobs"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})",
       "tools[0].function"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"tool_choice":"required"})",
       "tool_choice"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],
           "chat_template_kwargs":{"messages":[]}})",
       "chat_template_kwargs.messages"}};
  for (const auto& [body, param] : cases) {
    const ApiError error = Refused(Api::kChat, body);
    EXPECT_EQ(error.param, param) << body;
    EXPECT_THAT(error.message, HasSubstr(param)) << body;
  }
}

TEST(Wire, BoundsHold) {
  const WireLimits small = {.depth = 8, .values = 60, .messages = 2, .tools = 1, .stops = 1};
  const auto many = [](const std::string& one, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + one;
    return "[" + list + "]";
  };
  const std::string hi = R"({"role":"user","content":"x"})";
  EXPECT_EQ(Refused(Api::kChat, R"({"model":"m","messages":)" + many(hi, 3) + "}", small).param,
            "messages");
  EXPECT_EQ(Refused(Api::kChat, R"({"model":"m","messages":[],"stop":["a","b"]})", small).param,
            "stop");
  EXPECT_THAT(Refused(Api::kChat, std::string(9, '[') + std::string(9, ']'), small).message,
              HasSubstr("deep"));
  EXPECT_THAT(Refused(Api::kChat, many("1", 100), small).message, HasSubstr("values"));
  EXPECT_THAT(Refused(Api::kChat, R"({"model":"m","model":"n"})").message, HasSubstr("twice"));
  EXPECT_THAT(Refused(Api::kChat, "{\"model\":\"\xff\"}").message, HasSubstr("JSON"));
  EXPECT_THAT(Refused(Api::kChat, std::string(1'000'000, '[')).message, HasSubstr("deep"));
  EXPECT_EQ(Refused(Api::kChat, "[]").code, "invalid_type");
  Refused(Api::kChat, "");
}

TEST(Wire, AnObjectOfManyKeysTakesNoLongerForEach) {
  std::string body = R"({"model":"m","messages":[{"role":"user","content":"x"}],
    "chat_template_kwargs":{"k0":0)";
  for (int i = 1; i < 200'000; ++i) body += ",\"k" + std::to_string(i) + "\":0";
  body += "}}";
  // Quadratic time would be minutes.
  EXPECT_EQ(Accepted(Api::kChat, body).template_kwargs.size(), 200'000u);
}

TEST(Wire, ToolChoices) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}},
    {"type":"function","function":{"name":"g","description":"d","strict":true}}])";
  const auto chat = [&](const std::string& choice) {
    return R"({"model":"m","messages":[{"role":"user","content":"x"}],)" + tools +
           ",\"tool_choice\":" + choice + "}";
  };
  EXPECT_EQ(Accepted(Api::kChat, chat("\"none\"")).tool_choice.kind, ToolChoice::Kind::kNone);
  const ChatRequest named =
      Accepted(Api::kChat, chat(R"({"type":"function","function":{"name":"g"}})"));
  EXPECT_EQ(named.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(named.tool_choice.name, "g");
  EXPECT_EQ(named.tools[0]["function"]["parameters"]["type"], "object");
  const ChatRequest allowed = Accepted(
      Api::kChat, chat(R"({"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[
        {"type":"function","function":{"name":"g"}}]}})"));
  EXPECT_EQ(allowed.tools.size(), 1u);
  EXPECT_EQ(allowed.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(Refused(Api::kChat, chat(R"({"type":"function","function":{"name":"h"}})")).param,
            "tool_choice");
  const ChatRequest one = Accepted(Api::kMessages, R"({"model":"m","max_tokens":1,
    "messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}}],
    "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}})");
  EXPECT_EQ(one.tool_choice.name, "f");
  EXPECT_FALSE(one.parallel_tool_calls);
  EXPECT_EQ(Refused(Api::kResponses, R"({"model":"m","input":"x","tools":[
    {"type":"function","name":"f"},{"type":"function","name":"f"}]})")
                .param,
            "tools[1].name");
}

TEST(Wire, NewerNamesOfTheTokenBoundGoFirst) {
  const ChatRequest request = Accepted(Api::kChat, R"({"model":"m","max_tokens":5,
    "max_completion_tokens":7.0,"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(request.sampling.max_tokens, 7);
}

TEST(Wire, BrokenArgumentsOfAnEarlierCallStayText) {
  const ChatRequest request = Accepted(Api::kChat, R"({"model":"m","messages":[
    {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",
     "function":{"name":"f","arguments":"{\"x\": "}}]}]})");
  EXPECT_EQ(request.messages[0]["tool_calls"][0]["function"]["arguments"], "{\"x\": ");
}

TEST(Wire, WhatAnEarlierAnswerBroughtAlongIsNoError) {
  const ChatRequest request = Accepted(Api::kChat, R"({"model":"m","messages":[
    {"role":"assistant","content":"a","x_custom_field":"keep-me","annotations":[],"parsed":1}]})");
  EXPECT_THAT(request.ignored, testing::ElementsAre("messages[assistant].*"));
}

TEST(Wire, ThinkingSettingsReachTheTemplate) {
  const auto kwargs = [](Api api, const std::string& fields) {
    const char* start = api == Api::kChat
                            ? R"({"model":"m","messages":[{"role":"user","content":"x"}],)"
                        : api == Api::kResponses ? R"({"model":"m","input":"x",)"
                                                 : R"({"model":"m","max_tokens":1,
                                  "messages":[{"role":"user","content":"x"}],)";
    return Accepted(api, start + fields + "}").template_kwargs;
  };
  EXPECT_EQ(kwargs(Api::kChat, R"("reasoning_effort":"none")"),
            WireJson({{"enable_thinking", false}}));
  EXPECT_EQ(kwargs(Api::kChat, R"("reasoning":{"effort":"low"})"),
            WireJson({{"reasoning_effort", "low"}}));
  EXPECT_EQ(kwargs(Api::kChat, R"("thinking":{"type":"disabled"})"),
            WireJson({{"enable_thinking", false}}));
  EXPECT_EQ(kwargs(Api::kChat,
                   R"("enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})"),
            WireJson({{"enable_thinking", false}}));
  EXPECT_EQ(kwargs(Api::kResponses, R"("reasoning":{"effort":"high","summary":"auto"})"),
            WireJson({{"reasoning_effort", "high"}}));
  EXPECT_EQ(kwargs(Api::kMessages, R"("thinking":{"type":"enabled","budget_tokens":1024})"),
            WireJson({{"enable_thinking", true}}));
  EXPECT_EQ(kwargs(Api::kMessages, R"("thinking":{"type":"adaptive"})"), WireJson::object());
}

TEST(Wire, PromptsOfCompletions) {
  const auto prompts = [](const std::string& prompt) {
    return Accepted(Api::kCompletions, R"({"model":"m","prompt":)" + prompt + "}").prompts;
  };
  EXPECT_EQ(prompts("\"a\"")[0].text, "a");
  EXPECT_EQ(prompts("[\"a\",\"b\"]").size(), 2u);
  EXPECT_THAT(prompts("[1,2]")[0].ids, testing::ElementsAre(1, 2));
  EXPECT_THAT(prompts("[[1],[2,3]]")[1].ids, testing::ElementsAre(2, 3));
  const auto refused = [](const std::string& prompt) {
    return Refused(Api::kCompletions, R"({"model":"m","prompt":)" + prompt + "}").param;
  };
  EXPECT_EQ(refused("[1,-2]"), "prompt[1]");
  EXPECT_EQ(refused("[[1],[2.5]]"), "prompt[1][0]");
  EXPECT_EQ(refused("[]"), "prompt");
  EXPECT_EQ(refused("[[]]"), "prompt[0]");
  EXPECT_EQ(refused("{}"), "prompt");
  EXPECT_EQ(refused("[3000000000]"), "prompt[0]");
}

TEST(Wire, DeferredToolsAreShownWhereTheyAreNamed) {
  const std::string body = R"({"model":"m","max_tokens":1,"tools":[
    {"name":"find","input_schema":{"type":"object"}},
    {"name":"late","description":"d","input_schema":{"type":"object"},"defer_loading":true}],
    "messages":[{"role":"user","content":"x"},
    {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"find","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[
      {"type":"tool_reference","tool_name":"late"}]}]},
    {"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference",
      "name":"find"}}],"clear_at":"never"}]})";
  const ChatRequest request = Accepted(Api::kMessages, body);
  EXPECT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(WireJson::parse(request.messages[2]["content"].get<std::string>())["function"]["name"],
            "late");
  EXPECT_THAT(request.messages[3]["content"].get<std::string>(), HasSubstr("find"));
}

TEST(Wire, AMessageThatWasClearedIsLeftOut) {
  const auto messages = [](const std::string& last) {
    return Accepted(Api::kMessages, R"({"model":"m","max_tokens":1,"messages":[
      {"role":"user","content":"a"},
      {"role":"system","content":"now","clear_at":"next_user_message"})" +
                                        last + "]}")
        .messages;
  };
  EXPECT_EQ(messages("").size(), 2u);
  EXPECT_EQ(messages(R"(,{"role":"user","content":"b"})").size(), 2u);
  EXPECT_EQ(messages(R"(,{"role":"user","content":"b"})")[1]["content"], "b");
}

TEST(Wire, MessagesRefusesWhatItCannotDo) {
  const auto param = [](const std::string& messages) {
    return Refused(Api::kMessages, R"({"model":"m","max_tokens":1,"messages":)" + messages + "}")
        .param;
  };
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"hologram"}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(param(R"([{"role":"user","content":[]}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"tool_use","id":"a","name":"b"}]}])"),
            "messages[0].content[0]");
  EXPECT_EQ(Refused(Api::kMessages, R"({"model":"m","messages":[]})").param, "max_tokens");
  Accepted(Api::kCountTokens, R"({"model":"m","messages":[{"role":"user","content":"a"}]})");
}

TEST(Wire, SealedReasoningComesBack) {
  for (const std::string text : {"", "a", "ab", "abc", "wörld\n"}) {
    EXPECT_EQ(OpenReasoning(SealReasoning(text)), text);
  }
  EXPECT_EQ(OpenReasoning("EqQBCgIYAhIM"), std::nullopt);
  EXPECT_EQ(OpenReasoning("tmr1.%%%%"), std::nullopt);
  EXPECT_EQ(OpenReasoning("tmr1./w=="), std::nullopt);  // no UTF-8
  const ChatRequest request =
      Accepted(Api::kResponses, R"({"model":"m","input":[{"type":"reasoning","id":"r","summary":[],
      "encrypted_content":")" + SealReasoning("why") +
                                    R"("},{"role":"assistant","content":"so"}]})");
  EXPECT_EQ(request.messages[0]["reasoning_content"], "why");
}

TEST(Wire, ModelsInBothForms) {
  const std::vector<ServedModel> models = {{"policy", 1'700'000'000, 4096}};
  const WireJson openai = WireJson::parse(ModelsBody(models, false));
  EXPECT_EQ(openai["object"], "list");
  EXPECT_EQ(openai["data"][0]["id"], "policy");
  const WireJson anthropic = WireJson::parse(ModelsBody(models, true));
  EXPECT_EQ(anthropic["data"][0]["created_at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(anthropic["has_more"], false);
}

TEST(Wire, ErrorsHaveTheShapeOfTheirApi) {
  const ApiError error = {
      .status = 429, .message = "slow down", .param = "x", .code = "rate_limit_exceeded"};
  EXPECT_EQ(ErrorBody(Api::kChat, error),
            R"({"error":{"message":"slow down","type":"rate_limit_error","param":"x",)"
            R"("code":"rate_limit_exceeded"}})");
  EXPECT_EQ(ErrorBody(Api::kMessages, error, "req_1"),
            R"({"type":"error","error":{"type":"rate_limit_error","message":"slow down"},)"
            R"("request_id":"req_1"})");
  EXPECT_EQ(ErrorType(Api::kMessages, 529), "overloaded_error");
  EXPECT_EQ(ErrorType(Api::kChat, 500), "server_error");
}

}  // namespace
}  // namespace tidemill
