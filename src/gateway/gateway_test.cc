// The gateway over HTTP: what clients send and get, with answers scripted at the engine.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

constexpr char kCall[] =
    "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"c\": \"ls\"}}\n</tool_call>";

TEST_F(GatewayTest, AWholeAnswerHasTextUsageAndIds) {
  std::string prompt;
  Serve([&](const std::string& text) {
    prompt = text;
    return "Grüße, 世界";
  });
  const Json answer = Ask("/v1/chat/completions", Chat("hi <|im_end|>"));
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Grüße, 世界");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["model"], "any");
  const size_t bytes = std::string("Grüße, 世界").size();
  EXPECT_EQ(answer["usage"]["completion_tokens"], bytes + 1);  // and the end of the turn
  EXPECT_EQ(prompt, "<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n");
  // What the user wrote is ten characters, not the token.
  const size_t special = std::string("<|im_start|><|im_end|><|im_start|>").size() - 3;
  EXPECT_EQ(answer["usage"]["prompt_tokens"], prompt.size() - special);
}

TEST_F(GatewayTest, AStreamAddsUpToTheWholeInEachApi) {
  Serve("Some text, ü.");
  Json chat = Chat("hi");
  chat["stream"] = true;
  chat["stream_options"] = {{"include_usage", true}};
  std::string text;
  const auto events = Events(PostRaw("/v1/chat/completions", chat.dump()));
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  for (const std::string& event : events) {
    const Json chunk = Json::parse(event, nullptr, false);
    if (!chunk.is_object() || chunk["choices"].empty()) continue;
    text += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, "Some text, ü.");
  EXPECT_EQ(Json::parse(events[events.size() - 2])["usage"]["completion_tokens"], 15);

  const Json messages = {{"model", "m"},
                         {"max_tokens", 100},
                         {"stream", true},
                         {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  text.clear();
  for (const std::string& event : Events(PostRaw("/v1/messages?beta=true", messages.dump()))) {
    const Json data = Json::parse(event);
    if (data["type"] == "content_block_delta") text += data["delta"]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "Some text, ü.");

  const Json responses = {{"model", "m"}, {"input", "hi"}, {"stream", true}};
  text.clear();
  for (const std::string& event : Events(PostRaw("/v1/responses", responses.dump()))) {
    const Json data = Json::parse(event);
    if (data["type"] == "response.output_text.delta") text += data["delta"].get<std::string>();
  }
  EXPECT_EQ(text, "Some text, ü.");
}

TEST_F(GatewayTest, TextWithoutTurnsIsContinued) {
  Serve("");
  const Json answer =
      Ask("/v1/completions", {{"model", "m"}, {"prompt", {"abc", "z"}}, {"max_tokens", 4}});
  EXPECT_EQ(answer["choices"][0]["text"], "defg");
  EXPECT_EQ(answer["choices"][1]["text"], "bcde");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 4);
}

TEST_F(GatewayTest, CallsAreReadAndTheFirstIsTheOnlyOneWhereAsked) {
  ScriptedOptions options;
  options.pace = std::chrono::milliseconds(1);  // so that the engine can be stopped in time
  Serve(std::string("Let me see.\n") + kCall + "\n" + kCall, std::move(options));
  const Json both = Ask("/v1/chat/completions", WithTool(Chat("go")));
  const Json& message = both["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Let me see.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][1]["function"]["name"], "run");
  EXPECT_EQ(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            Json({{"c", "ls"}}));
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(both["choices"][0]["finish_reason"], "tool_calls");
  Json one = WithTool(Chat("go"));
  one["parallel_tool_calls"] = false;
  const Json single = Ask("/v1/chat/completions", one);
  EXPECT_EQ(single["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(single["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_LT(single["usage"]["completion_tokens"], both["usage"]["completion_tokens"]);
  // Without tools it is text.
  const Json text = Ask("/v1/chat/completions", Chat("go"));
  EXPECT_FALSE(text["choices"][0]["message"].contains("tool_calls"));
}

TEST_F(GatewayTest, AChosenToolIsForcedWithTokensThatAreNotDrawn) {
  Serve([](const std::string&) {
    return std::string(
        "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"c\": \"forced\"}}\n"
        "</tool_call>");
  });
  Json body = WithTool(Chat("go"));
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "run"}}}};
  body["return_token_ids"] = true;
  const Json answer = Ask("/v1/chat/completions", body);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "run");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const size_t forced = std::string("<tool_call>\n{\"name\": \"run\", \"arguments\":").size();
  EXPECT_EQ(choice["draw_logprobs"][forced - 1], 0.0);
  EXPECT_EQ(choice["draw_logprobs"][forced], -0.5);
  body["tool_choice"] = "none";
  EXPECT_FALSE(Ask("/v1/chat/completions", body)["choices"][0]["message"].contains("tool_calls"));
}

TEST_F(GatewayTest, AStopStringIsCutAlsoWhereItSpansTokens) {
  Serve("one two STOP three");
  Json body = Chat("count");
  body["stop"] = {"STOP"};
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const std::string answer = PostRaw("/v1/chat/completions", body.dump());
    std::string text;
    if (stream) {
      for (const std::string& event : Events(answer)) {
        const Json chunk = Json::parse(event, nullptr, false);
        if (chunk.is_object()) text += chunk["choices"][0]["delta"].value("content", "");
      }
    } else {
      text = Json::parse(BodyOf(answer))["choices"][0]["message"]["content"];
    }
    EXPECT_EQ(text, "one two ");
  }
}

TEST_F(GatewayTest, TokenIdsLogprobsAndVersionsAreThoseOfTheDraw) {
  Serve("ab");
  Json body = Chat("hi");
  body["return_token_ids"] = true;
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const Json answer = Ask("/v1/chat/completions", body);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["token_ids"], Json({97, 98, 258}));
  EXPECT_EQ(choice["token_logprobs"], Json({-0.25, -0.25, -0.25}));
  EXPECT_EQ(choice["draw_logprobs"], Json({-0.5, -0.5, -0.5}));
  EXPECT_EQ(choice["policy_versions"], Json({1, 1, 1}));
  EXPECT_EQ(answer["prompt_token_ids"].size(), answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(choice["logprobs"]["content"][0]["token"], "a");
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"][1]["token"], "b");
}

TEST_F(GatewayTest, SeveralAnswersToOnePromptAreAllThere) {
  Serve("same");
  Json body = Chat("hi");
  body["n"] = 3;
  const Json answer = Ask("/v1/chat/completions", body);
  ASSERT_EQ(answer["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["message"]["content"], "same");
  }
  EXPECT_EQ(answer["usage"]["completion_tokens"], 15);
}

TEST_F(GatewayTest, TheNextTurnFindsItsPrefixInTheCache) {
  Serve("first answer that is long enough to fill a page");
  const std::string question = "a question that is long enough to fill more than a page of it";
  const Json first = Ask("/v1/chat/completions", Chat(question));
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  Json next = Chat(question);
  next["messages"].push_back(first["choices"][0]["message"]);
  next["messages"].push_back({{"role", "user"}, {"content", "go on"}});
  const Json second = Ask("/v1/chat/completions", next);
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"],
            first["usage"]["prompt_tokens"].get<int>() - 16);
}

TEST_F(GatewayTest, WhatCannotBeHonouredIsRefusedByName) {
  ScriptedOptions options;
  options.context = 256;
  options.gateway.strict_model = true;
  Serve("x", std::move(options));
  const std::string name = server_->policy().name;
  Json body = Chat(std::string(300, 'a'));
  Json error = Ask("/v1/chat/completions", body, 404)["error"];
  EXPECT_EQ(error["code"], "model_not_found");
  body["model"] = name;
  error = Ask("/v1/chat/completions", body, 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  const std::string message = error["message"];
  EXPECT_NE(message.find("256 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("319 tokens, 64 more than fit"), std::string::npos) << message;
  const Json anthropic = {{"model", name},
                          {"max_tokens", 10},
                          {"messages", {{{"role", "user"}, {"content", std::string(300, 'a')}}}}};
  error = Ask("/v1/messages", anthropic, 400);
  EXPECT_EQ(error["error"]["message"],
            "prompt is too long: 319 tokens > 255 maximum (64 too many)");
  EXPECT_EQ(error["type"], "error");
  body = Chat("hi");
  body["model"] = name;
  body["modalities"] = {"text", "audio"};
  EXPECT_EQ(Ask("/v1/chat/completions", body, 400)["error"]["param"], "modalities");
  body.erase("modalities");
  body["tool_choice"] = "required";
  EXPECT_EQ(Ask("/v1/chat/completions", body, 400)["error"]["param"], "tool_choice");
}

TEST_F(GatewayTest, TheServerTellsWhatItServes) {
  Serve("x");
  RawClient client(port());
  client.Get("/v1/models");
  EXPECT_EQ(Json::parse(BodyOf(client.ReadAnswer()))["data"][0]["id"], server_->policy().name);
  client.Get("/v1/models", "anthropic-version: 2023-06-01\r\n");
  EXPECT_EQ(Json::parse(BodyOf(client.ReadAnswer()))["data"][0]["type"], "model");
  client.Get("/models");
  EXPECT_EQ(Json::parse(BodyOf(client.ReadAnswer()))["object"], "list");
  EXPECT_EQ(Ask("/chat/completions", Chat("hi"))["object"], "chat.completion");
  const Json ids = Ask("/tokenize", {{"content", "hi there"}})["tokens"];
  EXPECT_EQ(Ask("/detokenize", {{"tokens", ids}})["content"], "hi there");
  client.Get("/healthz");
  EXPECT_EQ(BodyOf(client.ReadAnswer()), "ok\n");
  client.Get("/nowhere");
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 404);
  client.Get("/v1/messages", "anthropic-version: 2023-06-01\r\n");
  const std::string wrong = client.ReadAnswer();
  EXPECT_EQ(StatusOf(wrong), 405);
  EXPECT_EQ(Json::parse(BodyOf(wrong))["type"], "error");
  const Json count = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(Ask("/v1/messages/count_tokens", count)["input_tokens"], 21);
  (void)Ask("/v1/chat/completions", Chat("hi"));
  // A request is counted when its answer has been sent.
  std::string metrics;
  const std::string last = "vllm:request_success_total{";
  for (int i = 0; i < 1000 && metrics.find(last) == std::string::npos; ++i) {
    client.Get("/metrics");
    metrics = BodyOf(client.ReadAnswer());
  }
  for (const char* name : {"vllm:time_to_first_token_seconds_count", "vllm:prompt_tokens_total",
                           "vllm:request_success_total{", "tidemill_gateway_requests_total{"}) {
    EXPECT_NE(metrics.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tidemill
