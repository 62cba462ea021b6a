// Requests that say what the answer may be, and what else other servers' clients send.
#include <gmock/gmock.h>

#include "core/random.h"
#include "engine/constraint/constraint.h"
#include "gateway/answer_constraints.h"
#include "gateway/turn_plan.h"
#include "gateway/turn_reader.h"
#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using PartKind = ConstraintPart::Kind;

ChatRequest Parsed(Api api, const std::string& body) {
  ParsedRequest parsed = ParseRequest(api, body, {});
  EXPECT_TRUE(parsed.ok()) << parsed.error.message;
  return parsed.ok() ? *parsed.request : ChatRequest();
}

std::string WrongWith(Api api, const std::string& body) {
  const ParsedRequest parsed = ParseRequest(api, body, {});
  return parsed.ok() ? "" : parsed.error.message;
}

std::string ChatBodyWith(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + fields + "}";
}

TEST(AnswerShape, EveryServersWordsForItAreRead) {
  const auto kind = [](Api api, const std::string& body) {
    const ChatRequest request = Parsed(api, body);
    return request.shape ? std::optional(request.shape->part.kind) : std::nullopt;
  };
  const std::string schema = R"({"type":"object"})";
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("response_format":{"type":"text"})")), std::nullopt);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("response_format":{"type":"json_object"})")),
            PartKind::kObject);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("response_format":{"type":"json_schema","json_schema":
                 {"name":"n","strict":true,"schema":)" +
                                          schema + "}}")),
            PartKind::kSchema);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("response_format":{"type":"json_object","schema":)" +
                                          schema + "}")),
            PartKind::kSchema);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("guided_json":"{\"type\":\"null\"}")")),
            PartKind::kSchema);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("guided_regex":"a+")")), PartKind::kRegex);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("guided_choice":["a","b"])")), PartKind::kChoice);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("guided_grammar":"root ::= \"a\"")")),
            PartKind::kGrammar);
  EXPECT_EQ(kind(Api::kChat, ChatBodyWith(R"("structured_outputs":{"json":)" + schema + "}")),
            PartKind::kSchema);
  EXPECT_EQ(kind(Api::kCompletions,
                 R"({"model":"m","prompt":"p","structured_outputs":{"choice":["a"]}})"),
            PartKind::kChoice);
  EXPECT_EQ(
      kind(Api::kResponses, R"({"model":"m","input":"p","text":{"format":{"type":"json_schema",
                 "name":"n","schema":)" +
                                schema + "}}}"),
      PartKind::kSchema);
  EXPECT_EQ(
      kind(Api::kMessages, R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":
                 "hi"}],"output_config":{"format":{"type":"json_schema","schema":)" +
                               schema + "}}}"),
      PartKind::kSchema);
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("guided_regex":"a","guided_choice":["b"])")),
              HasSubstr("guided_regex"));
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("guided_choice":[])")),
              HasSubstr("guided_choice"));
}

TEST(AnswerShape, ControlsAreReadAndBounded) {
  const ChatRequest request =
      Parsed(Api::kChat, ChatBodyWith(R"("presence_penalty":0.5,"frequency_penalty":-1,
      "repetition_penalty":1.2,"logit_bias":{"7":-100,"9":3},"min_tokens":4,"ignore_eos":true,
      "stop_token_ids":[5],"prompt_logprobs":2)"));
  EXPECT_EQ(request.sampling.presence_penalty, 0.5);
  EXPECT_EQ(Parsed(Api::kChat, ChatBodyWith(R"("n_predict":7)")).sampling.max_tokens, 7);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.2);
  EXPECT_THAT(request.sampling.logit_bias,
              testing::ElementsAre(std::pair(7, -100.0), std::pair(9, 3.0)));
  EXPECT_EQ(request.sampling.min_tokens, 4);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_THAT(request.sampling.stop_token_ids, testing::ElementsAre(5));
  EXPECT_EQ(request.sampling.prompt_logprobs, 2);
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("presence_penalty":3)")),
              HasSubstr("presence_penalty"));
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("logit_bias":{"x":1})")),
              HasSubstr("logit_bias"));
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("typical_p":0.5)")), HasSubstr("typical_p"));
  EXPECT_EQ(WrongWith(Api::kChat, ChatBodyWith(R"("typical_p":1,"mirostat":0)")), "");
}

TEST(AnswerShape, AnAnswerIsContinuedOnlyBehindAnAssistantsText) {
  const std::string more = R"("continue_final_message":true)";
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(more)),
              HasSubstr("must end with the assistant's"));
  const ChatRequest request =
      Parsed(Api::kChat, R"({"model":"m","messages":[{"role":"user","content":"hi"},
      {"role":"assistant","content":"Once"}],"add_generation_prompt":false,)" +
                             more + "}");
  EXPECT_EQ(request.prefill, "Once");
  EXPECT_EQ(request.messages.size(), 1u);
  EXPECT_THAT(WrongWith(Api::kChat, ChatBodyWith(R"("add_generation_prompt":false)")),
              HasSubstr("add_generation_prompt"));
}

class ConstrainedAnswer : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteByteModel(dir_.path(), 1000).ok());
    policy_.emplace(ReadServedPolicy(dir_.path()).value());
  }

  // What an answer is read as, drawn at random under the request's constraint.
  std::vector<OutputEvent> Drawn(const ChatRequest& request, bool thinking_open, Random& random) {
    AnswerConstraints constraints(*policy_);
    const auto constraint = constraints.For(request, thinking_open);
    TM_CHECK(constraint.ok() && *constraint, constraint.status().message());
    ConstraintMatcher matcher(*constraint);
    TurnReader reader(*policy_, ReaderOptionsFor(*policy_, request, thinking_open));
    std::vector<OutputEvent> all;
    for (int i = 0; i < 3000; ++i) {
      std::vector<TokenId> ids;
      matcher.Mask()->AppendIds(policy_->tokenizer.vocab_size(), ids);
      std::vector<TokenId> closing;
      for (const TokenId id : ids) {
        const std::string_view text = policy_->tokenizer.TokenBytes(id);
        if (text.size() != 1 || text == "\"" || text == "}" || text == "<") closing.push_back(id);
      }
      const bool close = !closing.empty() && random.Below(2) == 0;
      const TokenId id =
          close ? closing[random.Below(closing.size())] : ids[random.Below(ids.size())];
      matcher.Take(id);
      TurnOutput part;
      part.ids = {id};
      part.logprobs = {-1};
      const bool end =
          std::find(policy_->end_ids.begin(), policy_->end_ids.end(), id) != policy_->end_ids.end();
      for (OutputEvent& event : reader.Push(part, end).events) AppendEvent(std::move(event), all);
      if (end) return all;
    }
    return all;
  }

  TemporaryDirectory dir_;
  std::optional<ServedPolicy> policy_;
};

TEST_F(ConstrainedAnswer, ARequiredStrictToolIsCalledAsItsSchemaSays) {
  const ChatRequest request = Parsed(
      Api::kChat, ChatBodyWith(R"("tool_choice":"required","parallel_tool_calls":false,"tools":[
      {"type":"function","function":{"name":"add","strict":true,"parameters":{"type":"object",
      "properties":{"a":{"type":"integer"},"op":{"enum":["plus","minus"]}},"required":["a","op"],
      "additionalProperties":false}}}])"));
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    const std::vector<OutputEvent> events = Drawn(request, false, random);
    std::string name, arguments;
    for (const OutputEvent& event : events) {
      if (event.kind == OutputEvent::Kind::kCallBegin) name = event.text;
      if (event.kind == OutputEvent::Kind::kCallArguments) arguments += event.text;
      EXPECT_NE(event.kind, OutputEvent::Kind::kText) << event.text;
    }
    EXPECT_EQ(name, "add");
    const Json value = Json::parse(arguments, nullptr, false);
    ASSERT_TRUE(value.is_object()) << arguments;
    EXPECT_TRUE(value["a"].is_number_integer());
    EXPECT_TRUE(value["op"] == "plus" || value["op"] == "minus");
    EXPECT_EQ(value.size(), 2u);
  }
}

TEST_F(ConstrainedAnswer, AThoughtComesBeforeTheForm) {
  policy_->format.thinking = true;
  const ChatRequest request = Parsed(Api::kChat, ChatBodyWith(R"("guided_choice":["yes","no"])"));
  AnswerConstraints constraints(*policy_);
  const auto constraint = constraints.For(request, true);
  ASSERT_TRUE(constraint.ok());
  const auto takes = [&](const std::string& text) {
    auto& automaton = *(*constraint)->automaton;
    return automaton.Accepts(automaton.Follow(automaton.start(), text));
  };
  EXPECT_TRUE(takes("Is it? </thin no </think>\n\nyes"));
  EXPECT_FALSE(takes("yes")) << "the thought is still open";
  EXPECT_FALSE(takes("Is it?</think>\n\nmaybe"));
  const auto closed = constraints.For(request, false);
  ASSERT_TRUE(closed.ok());
  auto& automaton = *(*closed)->automaton;
  EXPECT_TRUE(automaton.Accepts(automaton.Follow(automaton.start(), "no")));
  EXPECT_TRUE(automaton.Accepts(automaton.Follow(automaton.start(), "<think>hm</think>\nyes")));
}

TEST_F(ConstrainedAnswer, ForcedTokensOfAToolChoiceBeginTheCall) {
  const ChatRequest request =
      Parsed(Api::kChat,
             ChatBodyWith(R"("tool_choice":{"type":"function","function":{"name":"f"}},"tools":[
      {"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object",
      "properties":{"x":{"type":"boolean"}},"required":["x"],"additionalProperties":false}}}])"));
  AnswerConstraints constraints(*policy_);
  const auto constraint = constraints.For(request, false);
  ASSERT_TRUE(constraint.ok()) << constraint.status().ToString();
  TurnPrompt prompt;
  prompt.prompts = {{1, 2, 3}};
  const TurnPlan plan =
      PlanTurns(*policy_, {.context_tokens = 1000}, request, prompt, {.constraint = *constraint});
  ASSERT_FALSE(plan.error) << plan.error->message;
  ConstraintMatcher matcher(*constraint);
  for (const TokenId id : plan.choices[0].params.forced) matcher.Take(id);
  EXPECT_FALSE(matcher.astray());
}

class OtherServersClients : public GatewayTest {};

TEST_F(OtherServersClients, ProbesOfEveryServerAreAnswered) {
  ScriptedOptions options;
  options.gateway.version = "1.2.3";
  Serve("x", std::move(options));
  const auto get = [&](const std::string& path) {
    RawClient client(port());
    client.Get(path);
    return client.ReadToEnd();
  };
  EXPECT_EQ(BodyOf(get("/health")), R"({"status":"ok"})");
  EXPECT_EQ(BodyOf(get("/version")), R"({"version":"1.2.3"})");
  EXPECT_EQ(BodyOf(get("/api/version")), R"({"version":"1.2.3"})");
  EXPECT_EQ(Json::parse(BodyOf(get("/v1/models")))["data"][0]["context_length"], 4096);
}

TEST_F(OtherServersClients, AFieldThatNobodyKnowsIsIgnoredAndNamed) {
  ScriptedOptions options;
  options.gateway.limits.ignore_unknown = true;
  Serve("x", std::move(options));
  Json body = Chat("hi");
  body["novel_field"] = 1;
  const std::string answer = PostRaw("/v1/chat/completions", body.dump());
  EXPECT_EQ(StatusOf(answer), 200) << answer;
  EXPECT_THAT(answer, HasSubstr("x-tidemill-warning: ignored, unknown: novel_field"));
}

TEST_F(OtherServersClients, WhatASchemaCannotSayIsA400ThatNamesIt) {
  Serve("x");
  Json body = Chat("hi");
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "n"}, {"schema", {{"not", Json::object()}}}}}};
  const Json answer = Ask("/v1/chat/completions", body, 400);
  EXPECT_THAT(answer["error"]["message"].get<std::string>(), HasSubstr("\"not\""));
  EXPECT_EQ(answer["error"]["param"], "response_format.json_schema.schema");
}

TEST_F(OtherServersClients, AMessageOfTheAssistantIsContinued) {
  std::string seen;
  Serve([&seen](const std::string& prompt) {
    seen = prompt;
    return std::string("Once upon a time");
  });
  Json body = Chat("hi");
  body["messages"].push_back({{"role", "assistant"}, {"content", "Once"}});
  Json anthropic = body;
  body["continue_final_message"] = true;
  body["add_generation_prompt"] = false;
  EXPECT_EQ(Ask("/v1/chat/completions", body)["choices"][0]["message"]["content"], " upon a time");
  EXPECT_TRUE(seen.ends_with("<|im_start|>assistant\n")) << "its message is the one that is open";
  body["echo"] = true;
  EXPECT_EQ(Ask("/v1/chat/completions", body)["choices"][0]["message"]["content"],
            "Once upon a time");
  anthropic["max_tokens"] = 50;
  EXPECT_EQ(Ask("/v1/messages", anthropic)["content"][0]["text"], " upon a time");
}

TEST_F(OtherServersClients, PagesAskOnlyFromOriginsThatMay) {
  ScriptedOptions options;
  options.gateway.cors = {"https://chat.example.org"};
  Serve("x", std::move(options));
  const std::string may = "Origin: https://chat.example.org\r\n";
  const std::string answer = PostRaw("/v1/chat/completions", Chat("hi").dump(), may);
  EXPECT_EQ(StatusOf(answer), 200) << answer;
  EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Origin: https://chat.example.org"));
  const std::string other =
      PostRaw("/v1/chat/completions", Chat("hi").dump(), "Origin: https://evil.example.org\r\n");
  EXPECT_EQ(StatusOf(other), 403) << other;
  RawClient client(port());
  client.Send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
              may + "Access-Control-Request-Headers: authorization\r\n\r\n");
  const std::string asked = client.ReadToEnd();
  EXPECT_EQ(StatusOf(asked), 204) << asked;
  EXPECT_THAT(asked, HasSubstr("Access-Control-Allow-Headers: authorization"));
}

}  // namespace
}  // namespace tidemill
