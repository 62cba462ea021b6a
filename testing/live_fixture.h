// For tests: a served policy without weights, a store in memory, and a client that asks and is
// answered with scripted ids.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "gateway/request_parts.h"
#include "gateway/wire.h"
#include "gateway/wire_json.h"
#include "live/live_recorder.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {

// ChatML with tools and reasoning, which is dropped from answers before the last question.
inline constexpr const char* kTestTemplate = R"jinja(
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- if tools %}{{- '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{{ '\n' }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if m.reasoning_content and loop.index0 > ns.last %}{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}
{{- m.content }}
{%- for c in m.tool_calls or [] %}{{- '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}{{- '}\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}
{%- elif m.role == 'tool' %}{{- '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %})jinja";

inline Tokenizer TestTokenizer() {
  std::ifstream file(GoldenRoot(SourceDir()) + "/qwen3-tiny/tokenizer.json");
  std::stringstream text;
  text << file.rdbuf();
  auto json = nlohmann::ordered_json::parse(text.str());
  int id = 600;
  for (const auto& [content, special] :
       std::vector<std::pair<std::string, bool>>{{"<|start_header_id|>", true},
                                                 {"<|end_header_id|>", true},
                                                 {"<|eot_id|>", true},
                                                 {"<|begin_of_text|>", true},
                                                 {"<think>", false},
                                                 {"</think>", false},
                                                 {"<tool_call>", false},
                                                 {"</tool_call>", false}}) {
    nlohmann::ordered_json token = json["added_tokens"][0];
    token["id"] = id++;
    token["content"] = content;
    token["special"] = special;
    json["added_tokens"].push_back(token);
  }
  auto tokenizer = Tokenizer::Parse(json.dump(), "test tokenizer");
  TM_CHECK(tokenizer.ok(), tokenizer.status().message());
  return *tokenizer;
}

inline ServedPolicy TestPolicy(const std::string& source, const std::string& end = "<|im_end|>") {
  auto chat = ChatTemplate::Parse(source, "test template");
  TM_CHECK(chat.ok(), chat.status().message());
  ServedPolicy policy{MakeModelChat(TestTokenizer(), ModelTemplate{.chat = *chat,
                                                                   .tool_use = std::nullopt,
                                                                   .bos_token = "",
                                                                   .eos_token = end}),
                      "test", 100'000};
  return policy;
}

// What a model writes for a message to be its answer, in Hermes' format with spaces of its own.
inline std::string WrittenText(const WireJson& message) {
  std::string text;
  if (message.contains("reasoning_content")) {
    text += "<think>\n" + message["reasoning_content"].get<std::string>() + "\n</think>\n\n";
  }
  text += message["content"].get<std::string>();
  if (!message.contains("tool_calls")) return text;
  for (const WireJson& call : message["tool_calls"]) {
    text += "\n<tool_call>\n{\"name\":  " + call["function"]["name"].dump() +
            ",\"arguments\" :" + call["function"]["arguments"].dump() + " }\n</tool_call>";
  }
  return text;
}

// The message that a text of the model is, as the gateway reads it.
inline WireJson ReadMessage(const ServedPolicy& policy, const std::string& text) {
  OutputParserOptions options;
  options.format = {.tools = ToolFormat::kHermesJson, .thinking = true};
  (void)policy;
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  parser.Push(text, events);
  parser.Finish(events);
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::kText) content += event.text;
    if (event.kind == OutputEvent::Kind::kReasoning) reasoning += event.text;
    if (event.kind == OutputEvent::Kind::kCallBegin) calls.emplace_back(event.text, "");
    if (event.kind == OutputEvent::Kind::kCallArguments) calls.back().second += event.text;
  }
  WireJson list = WireJson::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    list.push_back(CanonicalCall("call_" + std::to_string(i), calls[i].first, calls[i].second, {}));
  }
  return CanonicalAssistant(content, reasoning, std::move(list));
}

// Ids that say the text and that no tokenizer would choose: it is cut at random first.
inline std::vector<TokenId> DrawIds(const ServedPolicy& policy, const std::string& text,
                                    Random& random, bool ended = true) {
  std::vector<TokenId> ids;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min<size_t>(text.size(), at + 1 + random.Below(9));
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    policy.tokenizer.EncodeTo(std::string_view(text).substr(at, end - at), SpecialTokens::kAsText,
                              ids);
    at = end;
  }
  if (ended) ids.push_back(policy.end_ids[0]);
  return ids;
}

// Answers at once; what was put can be given to the next process.
class TestStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    if (!failure.ok()) return events_.Post({tag, failure, 0});
    if (auto* put = std::get_if<PutSession>(&op)) {
      sessions[put->session.number()] = put->session;
      for (v1::Trajectory& one : put->trajectories) trajectories.push_back(std::move(one));
    }
    if (auto* put = std::get_if<PutSessionTurn>(&op)) {
      ASSERT_TRUE(sessions.contains(put->turn.session()));
      turns[put->turn.session()].push_back(put->turn);
    }
    if (auto* put = std::get_if<PutSignal>(&op)) signals.push_back(put->signal);
    if (auto* put = std::get_if<PutVerdict>(&op)) verdicts.push_back(put->verdict);
    events_.Post({tag, Ok(), 0});
  }
  Mailbox<StoreDone>& events() override { return events_; }

  SessionsState State() const {
    SessionsState state;
    for (const auto& [number, session] : sessions) {
      state.next_number = number + 1;
      const auto it = turns.find(number);
      state.sessions.push_back(
          {session, it == turns.end() ? std::vector<v1::SessionTurn>() : it->second});
    }
    return state;
  }

  Status failure;
  std::map<uint64_t, v1::Session> sessions;
  std::map<uint64_t, std::vector<v1::SessionTurn>> turns;
  std::vector<v1::Trajectory> trajectories;
  std::vector<v1::Signal> signals;
  std::vector<v1::Verdict> verdicts;

 private:
  Mailbox<StoreDone> events_{100'000};
};

struct Asked {
  TurnPrompt prompt;
  Status status;
};

// A recorder with a client before it. Every method is one thread's.
class LiveWorld {
 public:
  explicit LiveWorld(const ServedPolicy& policy, LiveOptions options = {})
      : policy(policy), builder(policy), options(options) {
    Restart();
  }

  // A new process with what the store has.
  void Restart() {
    recorder = std::make_unique<LiveRecorder>(options, builder, store, clock, store.State());
  }

  Asked Ask(const ChatRequest& request, const std::map<std::string, std::string>& headers = {},
            const std::string& body = "") {
    const std::string hash =
        Sha256Hex(body.empty() ? request.messages.dump() + request.tools.dump() : body);
    auto prompt = recorder->Prepare({.request = request,
                                     .tenant = tenant,
                                     .headers = headers,
                                     .request_id = "r" + std::to_string(++requests),
                                     .body_sha256 = hash,
                                     .wall_ms = clock.WallMs()});
    if (!prompt.ok()) return {{}, prompt.status()};
    return {std::move(*prompt), Ok()};
  }

  // The answer is drawn and stored; what the client is told.
  Status Answer(const Asked& asked, std::vector<TokenId> ids, WireJson message,
                TurnParams params = {}, int choice = 0) {
    Status told = Internal("nobody was told");
    recorder->Finished(Turn(asked, std::move(ids), std::move(message), params, choice),
                       [&](Status status) { told = std::move(status); });
    Step();
    return told;
  }

  // With the ids of `text` drawn at random; the message it is.
  WireJson Say(const Asked& asked, const std::string& text, TurnParams params = {}) {
    WireJson message = ReadMessage(policy, text);
    const Status told = Answer(asked, DrawIds(policy, text, random), message, params);
    TM_CHECK(told.ok(), told.message());
    return message;
  }

  static RecordedTurn Turn(const Asked& asked, std::vector<TokenId> ids, WireJson message,
                           const TurnParams& params, int choice) {
    RecordedTurn turn;
    turn.ticket = asked.prompt.ticket;
    turn.choice = choice;
    turn.params = params;
    turn.output.logprobs.assign(ids.size(), -0.5f);
    turn.output.versions = {{3, static_cast<uint32_t>(ids.size())}};
    turn.output.ids = std::move(ids);
    turn.message = std::move(message);
    return turn;
  }

  void Step() { recorder->loop().Step(clock.Now()); }
  // Time passes until every session is closed.
  void CloseAll() {
    clock.Advance(options.idle + std::chrono::seconds(2));
    Step();
    Step();
  }

  const ServedPolicy& policy;
  TemplatePromptBuilder builder;
  LiveOptions options;
  VirtualClock clock;
  TestStore store;
  Tenant tenant{.name = "someone", .consent = Consent::kTrain};
  Random random{7};
  std::unique_ptr<LiveRecorder> recorder;
  int requests = 0;
};

inline WireJson UserMessage(const std::string& text) {
  return {{"role", "user"}, {"content", text}};
}

inline ChatRequest RequestOf(WireJson messages, bool tools = false) {
  ChatRequest request;
  request.model = "test";
  request.messages = std::move(messages);
  if (tools) {
    request.tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", "bash"}, {"description", "runs"}, {"parameters", WireJson::object()}}}});
  }
  return request;
}

// All tokens of a trajectory in order, and how many of them the model wrote.
inline std::vector<uint32_t> Flat(const v1::Trajectory& trajectory) {
  std::vector<uint32_t> all(trajectory.prompt_ids().begin(), trajectory.prompt_ids().end());
  for (const v1::Turn& turn : trajectory.turns()) {
    all.insert(all.end(), turn.ids().begin(), turn.ids().end());
    all.insert(all.end(), turn.observation_ids().begin(), turn.observation_ids().end());
  }
  return all;
}

}  // namespace tidemill
