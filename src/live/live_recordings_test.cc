// What real agents sent, replayed with scripted answers: one session each, and every turn stands on
// the ids that were drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "testing/live_fixture.h"
#include "testing/recording.h"

namespace tidemill {
namespace {

// A line of a recording with what recording.h leaves out.
struct Exchange {
  RecordedExchange recorded;
  std::map<std::string, std::string> headers;
};

std::map<std::string, std::vector<Exchange>> ByAgent() {
  std::map<std::string, std::vector<Exchange>> agents;
  for (RecordedExchange& exchange : AllRecordings()) {
    if (exchange.agent.rfind("sdk-", 0) == 0) continue;
    agents[exchange.agent].push_back({std::move(exchange), {}});
  }
  for (auto& [agent, exchanges] : agents) {
    std::ifstream lines(RecordingsFolder() + "/" + agent + ".jsonl");
    size_t i = 0;
    for (std::string line; std::getline(lines, line); ++i) {
      const WireJson record = WireJson::parse(line);
      for (const auto& [name, value] : record["headers"].items()) {
        exchanges[i].headers[name] = value.get<std::string>();
      }
    }
  }
  return agents;
}

void AddTo(std::string& text, const WireJson& object, const char* key) {
  if (object.contains(key) && object[key].is_string()) text += object[key].get<std::string>();
}

// The recorded answer as the message it comes back as.
WireJson AnswerOf(Api api, const std::string& response) {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  auto chat = [&](const WireJson& message) {
    AddTo(content, message, "content");
    AddTo(reasoning, message, "reasoning_content");
    if (!message.contains("tool_calls")) return;
    for (const WireJson& call : message["tool_calls"]) {
      const WireJson& function = call["function"];
      if (function.contains("name")) calls.emplace_back(function["name"], "");
      AddTo(calls.back().second, function, "arguments");
    }
  };
  const WireJson whole = WireJson::parse(response, nullptr, false);
  if (whole.is_object() && whole.contains("choices")) chat(whole["choices"][0]["message"]);
  if (whole.is_object() && whole.contains("content")) {
    for (const WireJson& block : whole["content"]) {
      AddTo(content, block, "text");
      if (block["type"] == "tool_use") calls.emplace_back(block["name"], block["input"].dump());
    }
  }
  for (const RecordedEvent& event :
       whole.is_object() ? std::vector<RecordedEvent>() : EventsOf(response)) {
    const WireJson& data = event.data;
    if (api == Api::kChat && data.is_object() && !data["choices"].empty()) {
      chat(data["choices"][0]["delta"]);
    } else if (event.name == "response.output_item.done" &&
               data["item"]["type"] == "function_call") {
      calls.emplace_back(data["item"]["name"], data["item"]["arguments"]);
    } else if (event.name == "response.output_text.delta") {
      AddTo(content, data, "delta");
    } else if (event.name == "content_block_start" && data["content_block"]["type"] == "tool_use") {
      calls.emplace_back(data["content_block"]["name"], "");
    } else if (event.name == "content_block_delta") {
      AddTo(content, data["delta"], "text");
      if (data["delta"].contains("partial_json"))
        AddTo(calls.back().second, data["delta"], "partial_json");
    }
  }
  WireJson list = WireJson::array();
  for (const auto& [name, arguments] : calls)
    list.push_back(CanonicalCall("c", name, arguments, {}));
  return CanonicalAssistant(content, reasoning, std::move(list));
}

struct Replayed {
  size_t sessions = 0;
  size_t turns = 0;
  size_t extends = 0;  // turns that stand on an earlier one, whole
  uint64_t retries = 0, branches = 0;
  uint64_t sampled = 0, trained = 0, side = 0, sampling = 0;  // tokens
  std::vector<v1::Trajectory> trajectories;
};

bool StartsWith(const std::vector<TokenId>& all, const std::vector<TokenId>& beginning) {
  return all.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), all.begin());
}

Replayed Replay(const ServedPolicy& policy, const std::vector<Exchange>& exchanges, bool restarts) {
  LiveWorld world(policy);
  Replayed replayed;
  std::vector<std::vector<TokenId>> sequences;
  for (const Exchange& exchange : exchanges) {
    const auto api = ApiOfPath(exchange.recorded.path);
    if (!api) continue;
    const std::string body = exchange.recorded.body.dump();
    ParsedRequest parsed = ParseRequest(*api, body, {});
    if (!parsed.ok()) continue;  // a thread, which its client sends again as a whole
    const Asked asked = world.Ask(*parsed.request, exchange.headers, body);
    EXPECT_TRUE(asked.status.ok()) << asked.status.message();
    if (!asked.status.ok()) continue;
    const std::vector<TokenId>& prompt = asked.prompt.prompts[0];
    replayed.extends += std::any_of(sequences.begin(), sequences.end(), [&](const auto& earlier) {
      return StartsWith(prompt, earlier);
    });
    const WireJson answer = AnswerOf(*api, exchange.recorded.response);
    const std::string text = WrittenText(answer);
    TurnParams params;
    params.sampling.temperature =
        static_cast<float>(parsed.request->sampling.temperature.value_or(1));
    std::vector<TokenId> ids = DrawIds(policy, text, world.random);
    sequences.push_back(prompt);
    sequences.back().insert(sequences.back().end(), ids.begin(), ids.end());
    EXPECT_TRUE(world.Answer(asked, std::move(ids), ReadMessage(policy, text), params).ok());
    ++replayed.turns;
    if (restarts) world.Restart();
  }
  world.CloseAll();
  replayed.sessions = world.store.sessions.size();
  replayed.trajectories = world.store.trajectories;
  const LiveCounters& counters = world.recorder->counters();
  replayed.sampled = counters.sampled;
  replayed.trained = counters.trained;
  replayed.side = counters.side;
  replayed.sampling = counters.sampling;
  replayed.branches = counters.branches;
  replayed.retries = counters.retries;
  return replayed;
}

TEST(LiveRecordings, EachIsOneSessionWithEveryMainTurnTokenExact) {
  const auto agents = ByAgent();
  if (agents.empty()) GTEST_SKIP() << "no recordings in " << RecordingsFolder();
  EXPECT_GE(agents.size(), 17u);
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  const std::set<std::string> branching = {"openclaw", "py-aider", "py-smolagents-tool"};
  for (const bool restarts : {false, true}) {
    for (const auto& [agent, exchanges] : agents) {
      SCOPED_TRACE(agent + (restarts ? ", with restarts" : ""));
      const Replayed replayed = Replay(policy, exchanges, restarts);
      EXPECT_EQ(replayed.sessions, 1u);
      EXPECT_EQ(replayed.retries, 0u);
      EXPECT_EQ(replayed.branches > 0, branching.contains(agent));
      // A title is a conversation of its own; the first turn has none before it.
      const size_t roots = agent == "opencode" ? 2 : 1;
      if (!branching.contains(agent)) {
        EXPECT_EQ(replayed.extends, replayed.turns - roots);
      }
      // All that was drawn at a temperature in a main turn is trained, each token once.
      uint64_t trained = 0;
      for (const v1::Trajectory& trajectory : replayed.trajectories) {
        for (const v1::Turn& turn : trajectory.turns()) trained += turn.ids_size();
      }
      EXPECT_EQ(trained, replayed.trained);
      EXPECT_EQ(replayed.sampled, trained + replayed.side + replayed.sampling);
      EXPECT_EQ(replayed.side > 0, agent == "opencode");
      EXPECT_EQ(replayed.sampling > 0, agent == "py-aider");
      EXPECT_EQ(trained > 0, agent != "py-aider");
    }
  }
}

}  // namespace
}  // namespace tidemill
