// Streams and whole bodies tell clients the same.
#include "gateway/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/recording.h"

namespace tidemill {
namespace {

using Kind = OutputEvent::Kind;

const AnswerHead kAnswerHead = {
    .id = "x1", .created_s = 1'700'000'000, .model = "m", .prompt_ids = {{7, 8}}};

TokenRecord Token(int32_t id, const std::string& bytes) {
  return {.id = id,
          .bytes = bytes,
          .logprob = -0.5F,
          .draw_logprob = -0.25F,
          .version = 3,
          .top = {{id, bytes, -0.5F}, {99, "\xff", -2.0F}}};
}

// Reasoning, text, two calls, text.
std::vector<AnswerDelta> LongAnswer(int choice = 0) {
  return {{choice, {{Kind::kReasoning, "Hm."}}, {Token(1, "Hm.")}},
          {choice, {}, {Token(2, "\xc3")}},
          {choice, {{Kind::kText, "\xc3\xb6k"}}, {Token(3, "\xb6k")}},
          {choice, {{Kind::kCallBegin, "f", 0}}, {Token(4, "<f>")}},
          {choice, {{Kind::kCallArguments, "{\"a\":", 0}}, {Token(5, "{\"a\":")}},
          {choice, {{Kind::kCallArguments, "1}", 0}, {Kind::kCallEnd, "", 0}}, {Token(6, "1}")}},
          {choice,
           {{Kind::kCallBegin, "g", 1}, {Kind::kCallArguments, "{}", 1}, {Kind::kCallEnd, "", 1}},
           {Token(7, "<g>{}")}},
          {choice, {{Kind::kText, " done"}}, {Token(8, " done")}}};
}

ChatRequest Asked(Api api) {
  ChatRequest request;
  request.api = api;
  request.model = "m";
  return request;
}

Answer WholeOf(const std::vector<AnswerDelta>& deltas, AnswerEnd end = {}) {
  Answer answer;
  for (const AnswerDelta& delta : deltas) {
    answer.choices.resize(std::max(answer.choices.size(), static_cast<size_t>(delta.choice) + 1));
    answer.choices[static_cast<size_t>(delta.choice)].Add(delta);
  }
  for (AnswerChoice& choice : answer.choices) choice.end = end;
  answer.usage = {.prompt = 10, .completion = 8, .cached = 4, .reasoning = 1};
  return answer;
}

std::vector<RecordedEvent> Streamed(const ChatRequest& request,
                                    const std::vector<AnswerDelta>& deltas, AnswerEnd end = {}) {
  const auto stream = MakeAnswerStream(request, kAnswerHead);
  std::string bytes = stream->Open({.prompt = 10, .cached = 4});
  for (const AnswerDelta& delta : deltas) {
    bytes += stream->Write(delta);
    bytes += stream->Heartbeat();
  }
  for (int i = 0; i < ChoiceCount(request); ++i) bytes += stream->Finish(i, end);
  bytes += stream->Close({.prompt = 10, .completion = 8, .cached = 4, .reasoning = 1});
  std::vector<RecordedEvent> events = EventsOf(bytes);
  std::erase_if(events, [](const RecordedEvent& event) { return event.name == "ping"; });
  return events;
}

// What a client puts together from a chat stream.
WireJson GatheredMessage(const std::vector<RecordedEvent>& events, int index) {
  WireJson message = {
      {"content", ""}, {"reasoning_content", ""}, {"tool_calls", WireJson::array()}};
  for (const RecordedEvent& event : events) {
    if (!event.data.is_object()) continue;
    for (const WireJson& choice : event.data["choices"]) {
      if (choice["index"] != index) continue;
      const WireJson& delta = choice["delta"];
      for (const char* key : {"content", "reasoning_content"}) {
        if (delta.contains(key)) {
          message[key] = message[key].get<std::string>() + delta[key].get<std::string>();
        }
      }
      if (!delta.contains("tool_calls")) continue;
      for (WireJson call : delta["tool_calls"]) {
        const size_t at = call["index"];
        call.erase("index");
        if (at == message["tool_calls"].size()) {
          message["tool_calls"].push_back(call);
        } else {
          std::string& all =
              message["tool_calls"][at]["function"]["arguments"].get_ref<std::string&>();
          all += call["function"]["arguments"].get<std::string>();
        }
      }
    }
  }
  return message;
}

TEST(ChatAnswer, TheStreamAddsUpToTheWhole) {
  ChatRequest request = Asked(Api::kChat);
  request.sampling.n = 2;
  request.include_usage = true;
  std::vector<AnswerDelta> deltas = LongAnswer(0);
  for (AnswerDelta& delta : LongAnswer(1)) deltas.push_back(std::move(delta));
  const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(deltas)));
  const std::vector<RecordedEvent> events = Streamed(request, deltas);
  for (int i = 0; i < 2; ++i) {
    const WireJson gathered = GatheredMessage(events, i);
    const WireJson& message = body["choices"][static_cast<size_t>(i)]["message"];
    EXPECT_EQ(message["content"], "ök done");
    EXPECT_EQ(gathered["content"], message["content"]);
    EXPECT_EQ(gathered["reasoning_content"], message["reasoning_content"]);
    EXPECT_EQ(gathered["tool_calls"], message["tool_calls"]);
    EXPECT_EQ(message["tool_calls"].size(), 2u);
  }
  EXPECT_NE(body["choices"][0]["message"]["tool_calls"][0]["id"],
            body["choices"][1]["message"]["tool_calls"][0]["id"]);
  EXPECT_EQ(events.back().data, "[DONE]");
  EXPECT_EQ(events[events.size() - 2].data["usage"], body["usage"]);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(ChatAnswer, FinishReasons) {
  using Reason = AnswerEnd::Reason;
  const ChatRequest request = Asked(Api::kChat);
  const auto reason = [&](const std::vector<AnswerDelta>& deltas, AnswerEnd end) {
    const WireJson whole = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(deltas, end)));
    const std::vector<RecordedEvent> events = Streamed(request, deltas, end);
    const WireJson streamed = events[events.size() - 2].data["choices"][0]["finish_reason"];
    EXPECT_EQ(streamed, whole["choices"][0]["finish_reason"]);
    return streamed.get<std::string>();
  };
  const std::vector<AnswerDelta> text = {{0, {{Kind::kText, "x"}}, {}}};
  EXPECT_EQ(reason(text, {}), "stop");
  EXPECT_EQ(reason(text, {Reason::kStopString, "END"}), "stop");
  EXPECT_EQ(reason(text, {Reason::kLength}), "length");
  EXPECT_EQ(reason(LongAnswer(), {}), "tool_calls");
  EXPECT_EQ(reason(LongAnswer(), {Reason::kContext}), "length");
}

TEST(ChatAnswer, EverySampledTokenIsThereOnce) {
  ChatRequest request = Asked(Api::kChat);
  request.sampling.logprobs = true;
  request.sampling.top_logprobs = 1;
  request.return_token_ids = true;
  const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(LongAnswer())));
  EXPECT_EQ(body["prompt_token_ids"], WireJson({7, 8}));
  EXPECT_EQ(body["choices"][0]["token_ids"], WireJson({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(body["choices"][0]["policy_versions"][0], 3);
  EXPECT_EQ(body["choices"][0]["draw_logprobs"][0], -0.25);
  const WireJson& content = body["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(content.size(), 8u);
  EXPECT_EQ(content[1]["bytes"], WireJson({0xc3}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 1u);
  WireJson ids = WireJson::array();
  WireJson logprobs = WireJson::array();
  for (const RecordedEvent& event : Streamed(request, LongAnswer())) {
    if (!event.data.is_object() || !event.data["choices"][0].contains("token_ids")) continue;
    const WireJson& choice = event.data["choices"][0];
    ids.insert(ids.end(), choice["token_ids"].begin(), choice["token_ids"].end());
    logprobs.insert(logprobs.end(), choice["logprobs"]["content"].begin(),
                    choice["logprobs"]["content"].end());
  }
  EXPECT_EQ(ids, body["choices"][0]["token_ids"]);
  EXPECT_EQ(logprobs, content);
}

TEST(CompletionsAnswer, LogprobsHaveOffsetsAndPromptsTheirChoices) {
  ChatRequest request = Asked(Api::kCompletions);
  request.prompts = {{"p", {}}, {"q", {}}};
  request.sampling.logprobs = true;
  request.sampling.top_logprobs = 2;
  const std::vector<AnswerDelta> deltas = {
      {0, {{Kind::kText, "ök"}}, {Token(1, "ö"), Token(2, "k")}},
      {1, {{Kind::kText, "b"}}, {Token(3, "b")}},
      {0, {{Kind::kText, "!"}}, {Token(4, "!")}}};
  const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(deltas)));
  EXPECT_EQ(body["choices"].size(), 2u);
  EXPECT_EQ(body["choices"][0]["text"], "ök!");
  EXPECT_EQ(body["choices"][0]["logprobs"]["text_offset"], WireJson({0, 1, 2}));
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"], WireJson({"ö", "k", "!"}));
  const std::vector<RecordedEvent> events = Streamed(request, deltas);
  EXPECT_EQ(events[2].data["choices"][0]["logprobs"]["text_offset"], WireJson({2}));
  EXPECT_EQ(events.back().data, "[DONE]");
}

TEST(ResponsesAnswer, TheStreamEndsWithTheWhole) {
  ChatRequest request = Asked(Api::kResponses);
  request.sampling.logprobs = true;
  request.encrypted_reasoning = true;
  request.return_token_ids = true;
  request.namespaced["g"] = {"group", "inner"};
  const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(LongAnswer())));
  const std::vector<RecordedEvent> events = Streamed(request, LongAnswer());
  EXPECT_EQ(events.back().name, "response.completed");
  EXPECT_EQ(events.back().data["response"], body);
  EXPECT_EQ(body["output"].size(), 5u);
  EXPECT_EQ(body["output"][1]["content"][0]["logprobs"].size(), 2u);
  EXPECT_EQ(body["output"][3]["name"], "inner");
  EXPECT_EQ(body["output"][3]["namespace"], "group");
  std::vector<std::string> added;
  std::vector<std::string> done;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].data["sequence_number"], i);
    EXPECT_EQ(events[i].data["type"], events[i].name);
    if (events[i].name == "response.output_item.added") {
      added.push_back(events[i].data["item"]["id"]);
    }
    if (events[i].name == "response.output_item.done") {
      done.push_back(events[i].data["item"]["id"]);
      WireJson item = body["output"][done.size() - 1];
      for (const char* name :
           {"prompt_token_ids", "generation_token_ids", "generation_log_probs"}) {
        EXPECT_EQ(item.erase(name) > 0, done.size() == 5) << "the last of the whole has the ids";
      }
      EXPECT_EQ(events[i].data["item"], item);
    }
  }
  EXPECT_EQ(added, done);
  EXPECT_EQ(added.size(), 5u);
}

TEST(ResponsesAnswer, AnAnswerCutOffIsIncomplete) {
  const ChatRequest request = Asked(Api::kResponses);
  const AnswerEnd end = {AnswerEnd::Reason::kLength};
  const std::vector<AnswerDelta> deltas = {
      {0, {{Kind::kCallBegin, "f", 0}, {Kind::kCallArguments, "{\"a", 0}}, {}}};
  const std::vector<RecordedEvent> events = Streamed(request, deltas, end);
  EXPECT_EQ(events.back().name, "response.incomplete");
  EXPECT_EQ(events.back().data["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(events.back().data["response"],
            WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(deltas, end))));
}

// What a client puts together from a Messages stream.
WireJson GatheredBlocks(const std::vector<RecordedEvent>& events) {
  WireJson blocks = WireJson::array();
  std::string json;
  for (const RecordedEvent& event : events) {
    const WireJson& data = event.data;
    if (event.name == "content_block_start") {
      EXPECT_EQ(data["index"], blocks.size());
      blocks.push_back(data["content_block"]);
      json.clear();
    } else if (event.name == "content_block_delta") {
      for (const auto& [key, value] : data["delta"].items()) {
        if (key == "type") continue;
        if (key == "partial_json") {
          json += value.get<std::string>();
        } else {
          blocks.back()[key] = blocks.back()[key].get<std::string>() + value.get<std::string>();
        }
      }
    } else if (event.name == "content_block_stop" && blocks.back()["type"] == "tool_use") {
      blocks.back()["input"] = WireJson::parse(json);
    }
  }
  return blocks;
}

TEST(MessagesAnswer, TheStreamAddsUpToTheWhole) {
  for (const bool hidden : {false, true}) {
    ChatRequest request = Asked(Api::kMessages);
    request.hide_reasoning = hidden;
    const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(LongAnswer())));
    const std::vector<RecordedEvent> events = Streamed(request, LongAnswer());
    EXPECT_EQ(GatheredBlocks(events), body["content"]);
    EXPECT_EQ(body["content"].size(), 5u);
    EXPECT_EQ(body["content"][0]["thinking"], hidden ? "" : "Hm.");
    EXPECT_EQ(events.front().name, "message_start");
    EXPECT_EQ(events.front().data["message"]["usage"]["input_tokens"], 6);
    EXPECT_EQ(events.back().name, "message_stop");
    const WireJson& last = events[events.size() - 2].data;
    EXPECT_EQ(last["usage"], body["usage"]);
    EXPECT_EQ(last["delta"]["stop_reason"], "tool_use");
    EXPECT_EQ(body["stop_reason"], "tool_use");
  }
}

TEST(MessagesAnswer, StopReasons) {
  using Reason = AnswerEnd::Reason;
  const ChatRequest request = Asked(Api::kMessages);
  const std::vector<AnswerDelta> text = {{0, {{Kind::kText, "x"}}, {}}};
  const auto reason = [&](AnswerEnd end) {
    const WireJson body = WireJson::parse(WholeBody(request, kAnswerHead, WholeOf(text, end)));
    return std::pair<WireJson, WireJson>(body["stop_reason"], body["stop_sequence"]);
  };
  EXPECT_EQ(reason({}).first, "end_turn");
  EXPECT_EQ(reason({Reason::kLength}).first, "max_tokens");
  EXPECT_EQ(reason({Reason::kContext}).first, "model_context_window_exceeded");
  EXPECT_EQ(reason({Reason::kStopString, "END"}).first, "stop_sequence");
  EXPECT_EQ(reason({Reason::kStopString, "END"}).second, "END");
  Answer counted;
  counted.usage.prompt = 12;
  EXPECT_EQ(WholeBody(Asked(Api::kCountTokens), kAnswerHead, counted), R"({"input_tokens":12})");
}

TEST(Answers, AnErrorInTheMiddleHasTheShapeOfItsApi) {
  const ApiError error = {.status = 503, .message = "gone", .code = "server_error"};
  const auto failed = [&](Api api) {
    const ChatRequest request = Asked(api);
    const auto stream = MakeAnswerStream(request, kAnswerHead);
    stream->Open({});
    stream->Write({0, {{Kind::kText, "x"}}, {}});
    const std::vector<RecordedEvent> events = EventsOf(stream->Fail(error));
    EXPECT_EQ(events.size(), 1u);
    return events.at(0);
  };
  EXPECT_EQ(failed(Api::kChat).data["error"]["message"], "gone");
  EXPECT_EQ(failed(Api::kCompletions).data["error"]["type"], "service_unavailable_error");
  EXPECT_EQ(failed(Api::kResponses).name, "response.failed");
  EXPECT_EQ(failed(Api::kResponses).data["response"]["error"]["code"], "server_error");
  EXPECT_EQ(failed(Api::kMessages).name, "error");
  EXPECT_EQ(failed(Api::kMessages).data["error"]["type"], "overloaded_error");
}

TEST(Answers, AnAnswerWithoutAWordIsStillOne) {
  Answer empty;
  empty.choices.resize(1);
  EXPECT_EQ(WireJson::parse(WholeBody(Asked(Api::kChat), kAnswerHead,
                                      empty))["choices"][0]["message"]["content"],
            "");
  EXPECT_EQ(WireJson::parse(WholeBody(Asked(Api::kMessages), kAnswerHead, empty))["content"],
            WireJson::array());
  EXPECT_EQ(WireJson::parse(WholeBody(Asked(Api::kResponses), kAnswerHead, empty))["output"],
            WireJson::array());
}

}  // namespace
}  // namespace tidemill
