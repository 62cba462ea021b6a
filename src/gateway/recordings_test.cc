// Every recorded request is read as what it says, and for every recorded answer the writers give
// the same events with the same fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "gateway/answer.h"
#include "testing/recording.h"

namespace tidemill {
namespace {

using Kind = OutputEvent::Kind;

class Recordings : public testing::Test {
 protected:
  void SetUp() override {
    exchanges_ = AllRecordings();
    if (exchanges_.empty()) GTEST_SKIP() << "no recordings in " << RecordingsFolder();
  }

  static bool IsThread(const RecordedExchange& exchange) {
    return exchange.body.is_object() && exchange.body.contains("thread");
  }

  // Those that ask something and get an answer, with what they ask.
  std::vector<std::pair<RecordedExchange, ChatRequest>> Questions() const {
    std::vector<std::pair<RecordedExchange, ChatRequest>> questions;
    for (const RecordedExchange& exchange : exchanges_) {
      const auto api = ApiOfPath(exchange.path);
      if (!api.has_value() || IsThread(exchange)) continue;
      ParsedRequest parsed = ParseRequest(*api, exchange.body.dump(), {});
      EXPECT_TRUE(parsed.ok()) << exchange.Name() << ": " << parsed.error.message;
      if (parsed.ok()) questions.emplace_back(exchange, std::move(*parsed.request));
    }
    return questions;
  }

  std::vector<RecordedExchange> exchanges_;
};

size_t ToolsOfBody(const WireJson& body) {
  size_t count = 0;
  if (!body.contains("tools")) return 0;
  for (const WireJson& tool : body["tools"]) {
    const std::string type = tool.contains("type") ? tool["type"].get<std::string>() : "custom";
    if (type == "namespace") {
      count += tool["tools"].size();
    } else if (type != "web_search" && !tool.contains("defer_loading")) {
      ++count;
    }
  }
  return count;
}

const WireJson* FirstOf(const WireJson& messages, std::string_view role) {
  for (const WireJson& message : messages) {
    if (message["role"] == role) return &message;
  }
  return nullptr;
}

TEST_F(Recordings, EveryRequestIsRead) {
  EXPECT_GE(exchanges_.size(), 50u);
  for (const auto& [exchange, request] : Questions()) {
    SCOPED_TRACE(exchange.Name());
    EXPECT_EQ(request.model, "scripted-1");
    EXPECT_EQ(request.stream, exchange.body.contains("stream") && exchange.body["stream"] == true);
    EXPECT_EQ(request.tools.size(), ToolsOfBody(exchange.body));
    for (const WireJson& tool : request.tools) {
      EXPECT_EQ(tool["type"], "function");
      EXPECT_TRUE(tool["function"]["parameters"].is_object());
    }
    ASSERT_FALSE(request.messages.empty());
    for (const WireJson& message : request.messages) {
      EXPECT_THAT(message["role"].get<std::string>(),
                  testing::AnyOf("system", "user", "assistant", "tool"));
      EXPECT_TRUE(message["content"].is_string());
      EXPECT_EQ(message.contains("tool_call_id"), message["role"] == "tool");
      if (!message.contains("tool_calls")) continue;
      for (const WireJson& call : message["tool_calls"]) {
        EXPECT_TRUE(call["function"]["arguments"].is_object());
      }
    }
    // Texts over 160 characters are replaced in the recordings.
    if (exchange.agent.rfind("openclaw", 0) == 0 || exchange.agent == "py-mini-swe-agent") continue;
    if (exchange.agent == "py-aider" || exchange.agent == "sdk-openai") continue;
    bool task = false;
    for (const WireJson& message : request.messages) {
      const std::string content = message["content"];
      task = task || content.find("create hello.c") != std::string::npos;
    }
    EXPECT_TRUE(task || exchange.Name() == "sdk-anthropic 5") << request.messages.dump();
  }
}

TEST_F(Recordings, WhatIsAskedOfTheFirstTurnIsThePrefixOfTheNext) {
  const std::set<std::string> rewriters = {"py-aider", "openclaw", "sdk-openai", "sdk-anthropic"};
  std::map<std::string, WireJson> before;
  int compared = 0;
  for (const auto& [exchange, request] : Questions()) {
    // A title is a request of its own.
    if (exchange.Name() == "opencode 1" || rewriters.contains(exchange.agent)) continue;
    SCOPED_TRACE(exchange.Name());
    const auto last = before.find(exchange.agent);
    if (last != before.end()) {
      ASSERT_GT(request.messages.size(), last->second.size());
      for (size_t i = 0; i < last->second.size(); ++i) {
        EXPECT_EQ(request.messages[i], last->second[i]) << i;
      }
      ++compared;
    }
    before[exchange.agent] = request.messages;
  }
  EXPECT_GE(compared, 18);
}

TEST_F(Recordings, ResultsBelongToCalls) {
  int results = 0;
  for (const auto& [exchange, request] : Questions()) {
    SCOPED_TRACE(exchange.Name());
    std::set<std::string> calls;
    for (const WireJson& message : request.messages) {
      if (message.contains("tool_calls")) {
        for (const WireJson& call : message["tool_calls"]) calls.insert(call["id"]);
      }
      if (message["role"] != "tool") continue;
      EXPECT_TRUE(calls.contains(message["tool_call_id"].get<std::string>()));
      EXPECT_TRUE(message.contains("name"));
      ++results;
    }
  }
  EXPECT_GE(results, 18);
}

TEST_F(Recordings, KnownAgentsSaySpecificThings) {
  std::map<std::string, ChatRequest> by_name;
  for (auto& [exchange, request] : Questions()) by_name[exchange.Name()] = std::move(request);
  const ChatRequest& codex = by_name.at("codex 1");
  EXPECT_EQ(codex.messages[0]["role"], "system");
  EXPECT_EQ(codex.namespaced.at("multi_agent_v1__spawn_agent").name, "spawn_agent");
  EXPECT_TRUE(codex.encrypted_reasoning);
  EXPECT_EQ(codex.session_hints.at(0).first, "prompt_cache_key");
  const ChatRequest& claude = by_name.at("claude 1");
  EXPECT_TRUE(claude.hide_reasoning);
  EXPECT_EQ(claude.template_kwargs["reasoning_effort"], "high");
  EXPECT_EQ(claude.messages[2]["role"], "system");
  EXPECT_EQ(claude.messages[0]["content"].get<std::string>().find("x-anthropic"),
            std::string::npos);
  EXPECT_EQ(claude.sampling.max_tokens, 32000);
  const ChatRequest& smol = by_name.at("py-smolagents-tool 1");
  EXPECT_EQ(smol.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_THAT(smol.sampling.stop, testing::ElementsAre("Observation:", "Calling tools:"));
  EXPECT_EQ(by_name.at("py-aider 1").sampling.temperature, 0);
  EXPECT_EQ(by_name.at("py-mini-swe-agent 2").messages[2]["reasoning_content"],
            "I think about it.");
  const WireJson& again = by_name.at("py-langgraph-react 2").messages;
  EXPECT_EQ((*FirstOf(again, "assistant"))["tool_calls"].size(), 2u);
}

TEST_F(Recordings, AThreadIsRefusedAsItsClientUnderstands) {
  int threads = 0;
  for (const RecordedExchange& exchange : exchanges_) {
    if (!IsThread(exchange)) continue;
    const ParsedRequest parsed = ParseRequest(Api::kMessages, exchange.body.dump(), {});
    ASSERT_FALSE(parsed.ok());
    const WireJson body = WireJson::parse(ErrorBody(Api::kMessages, parsed.error));
    const WireJson recorded = WireJson::parse(exchange.response);
    EXPECT_EQ(body["error"]["type"], recorded["error"]["type"]);
    EXPECT_EQ(body["error"]["details"], recorded["error"]["details"]);
    ++threads;
  }
  EXPECT_EQ(threads, 1);
}

// Ids, times and what the scripted endpoint says otherwise than the API does.
bool MayDiffer(const std::string& key) {
  static const std::set<std::string> keys = {
      "id", "call_id", "item_id", "created", "created_at", "parallel_tool_calls", "output_tokens"};
  return keys.contains(key);
}
bool MayBeAbsent(const std::string& key) {
  static const std::set<std::string> keys = {"x_custom_field", "annotations"};
  return keys.contains(key);
}

// All that is recorded is in `ours`, equal.
void ExpectCovers(const WireJson& recorded, const WireJson& ours, const std::string& path) {
  ASSERT_EQ(recorded.type_name(), std::string(ours.type_name())) << path;
  if (recorded.is_object()) {
    for (const auto& [key, value] : recorded.items()) {
      if (MayBeAbsent(key)) continue;
      ASSERT_TRUE(ours.contains(key)) << path << "." << key << " in " << ours.dump();
      if (MayDiffer(key)) {
        EXPECT_EQ(value.type_name(), std::string(ours[key].type_name())) << path << "." << key;
      } else {
        ExpectCovers(value, ours[key], path + "." + key);
      }
    }
  } else if (recorded.is_array()) {
    ASSERT_EQ(recorded.size(), ours.size()) << path;
    for (size_t i = 0; i < recorded.size(); ++i) {
      ExpectCovers(recorded[i], ours[i], path + "[" + std::to_string(i) + "]");
    }
  } else if (!recorded.is_number()) {
    EXPECT_EQ(recorded, ours) << path;
  }
}

void AddChatEvents(const WireJson& message, std::vector<OutputEvent>& events) {
  if (message.contains("reasoning_content")) {
    events.push_back({Kind::kReasoning, message["reasoning_content"]});
  }
  if (message.contains("content") && message["content"].is_string()) {
    events.push_back({Kind::kText, message["content"]});
  }
  if (!message.contains("tool_calls")) return;
  int index = 0;
  for (const WireJson& call : message["tool_calls"]) {
    const int which = call.contains("index") ? call["index"].get<int>() : index++;
    if (call["function"].contains("name")) {
      events.push_back({Kind::kCallBegin, call["function"]["name"], which});
    }
    const std::string arguments = call["function"]["arguments"];
    if (!arguments.empty()) events.push_back({Kind::kCallArguments, arguments, which});
  }
}

// What a model would have written for the answer to be that.
std::vector<OutputEvent> WrittenFor(Api api, const RecordedEvent& event, int& calls) {
  std::vector<OutputEvent> events;
  const WireJson& data = event.data;
  if (api == Api::kChat) {
    if (data.is_object() && !data["choices"].empty()) {
      AddChatEvents(data["choices"][0]["delta"], events);
    }
  } else if (event.name == "response.output_item.added" && data["item"]["type"] != "message") {
    events.push_back({Kind::kCallBegin, data["item"]["name"], calls});
  } else if (event.name == "response.function_call_arguments.delta") {
    events.push_back({Kind::kCallArguments, data["delta"], calls});
  } else if (event.name == "response.function_call_arguments.done") {
    events.push_back({Kind::kCallEnd, "", calls++});
  } else if (event.name == "response.output_text.delta") {
    events.push_back({Kind::kText, data["delta"]});
  } else if (event.name == "content_block_start" && data["content_block"]["type"] == "tool_use") {
    events.push_back({Kind::kCallBegin, data["content_block"]["name"], calls});
  } else if (event.name == "content_block_delta" && data["delta"].contains("partial_json")) {
    events.push_back({Kind::kCallArguments, data["delta"]["partial_json"], calls});
  } else if (event.name == "content_block_delta" && data["delta"].contains("text")) {
    events.push_back({Kind::kText, data["delta"]["text"]});
  }
  return events;
}

const AnswerHead kHead = {.id = "abc123", .created_s = 1'700'000'000, .model = "scripted-1"};

TEST_F(Recordings, StreamsHaveTheSameEventsWithTheSameFields) {
  int streams = 0;
  for (const auto& [exchange, request] : Questions()) {
    if (!request.stream) continue;
    SCOPED_TRACE(exchange.Name());
    const auto stream = MakeAnswerStream(request, kHead);
    const std::vector<RecordedEvent> recorded = EventsOf(exchange.response);
    std::string bytes = stream->Open({});
    int calls = 0;
    for (const RecordedEvent& event : recorded) {
      for (OutputEvent& written : WrittenFor(request.api, event, calls)) {
        bytes += stream->Write({.events = {std::move(written)}});
      }
    }
    bytes += stream->Finish(0, {});
    bytes += stream->Close({});
    const std::vector<RecordedEvent> ours = EventsOf(bytes);
    ASSERT_EQ(ours.size(), recorded.size()) << bytes;
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].name, recorded[i].name);
      ExpectCovers(recorded[i].data, ours[i].data, std::to_string(i) + " " + ours[i].name);
    }
    ++streams;
  }
  EXPECT_GE(streams, 25);
}

TEST_F(Recordings, WholeAnswersHaveTheSameFields) {
  int bodies = 0;
  for (const auto& [exchange, request] : Questions()) {
    if (request.stream) continue;
    SCOPED_TRACE(exchange.Name());
    const WireJson recorded = WireJson::parse(exchange.response);
    std::vector<OutputEvent> events;
    if (request.api == Api::kChat) {
      AddChatEvents(recorded["choices"][0]["message"], events);
    } else if (request.api == Api::kResponses) {
      events.push_back({Kind::kCallBegin, recorded["output"][0]["name"], 0});
      events.push_back({Kind::kCallArguments, recorded["output"][0]["arguments"], 0});
    } else if (request.api == Api::kMessages) {
      const WireJson& block = recorded["content"][0];
      if (block["type"] == "text") {
        events.push_back({Kind::kText, block["text"]});
      } else {
        events.push_back({Kind::kCallBegin, block["name"], 0});
        events.push_back({Kind::kCallArguments, block["input"].dump(), 0});
      }
    }
    Answer answer;
    answer.choices.resize(1);
    answer.choices[0].Add({.events = events});
    ExpectCovers(recorded, WireJson::parse(WholeBody(request, kHead, answer)), "");
    ++bodies;
  }
  EXPECT_GE(bodies, 20);
}

}  // namespace
}  // namespace tidemill
