// An episode is trained on the ids that the gateway would serve: published templates, each with
// every conversation, its assistant's turns drawn by a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "conversation/dialogue.h"
#include "core/random.h"
#include "gateway/live_answer.h"
#include "gateway/plain_recorder.h"
#include "gateway/turn_reader.h"
#include "gateway/wire.h"
#include "live/prompt_builder.h"
#include "model/tokenizer_writer.h"
#include "rollout/protocol.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

constexpr int64_t kWallMs = 1'741'944'413'000;
constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

// What the template itself writes as tokens: <|..|>, <..> of a word, [WORD].
std::vector<std::string> SpecialTokensOf(const WireJson& family) {
  std::set<std::string> found;
  const std::string source = family["template"];
  for (const char* key : {"bos_token", "eos_token"}) {
    if (family[key].is_string() && !family[key].get<std::string>().empty()) {
      found.insert(family[key].get<std::string>());
    }
  }
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{
           {"<|", "|>"}, {"<｜", "｜>"}, {"<start_of_turn", ">"}, {"<end_of_turn", ">"}}) {
    for (size_t at = source.find(open); at != std::string::npos; at = source.find(open, at + 1)) {
      const size_t end = source.find(close, at + open.size());
      if (end == std::string::npos) break;
      const std::string token = source.substr(at, end + close.size() - at);
      if (token.size() < 40 && token.find_first_of(" '\"{}\n") == std::string::npos) {
        found.insert(token);
      }
    }
  }
  return {found.begin(), found.end()};
}

// With `merges` tokens span what was said and what the template writes.
Tokenizer TokenizerOf(const WireJson& family, bool merges) {
  TokenizerSpec spec = ByteTokenizerSpec(SpecialTokensOf(family));
  if (merges) {
    const std::string corpus =
        "\n\n<tool_call>\n{\"name\": \"\n</tool_call>\n<think>\n</think>\n\n";
    TM_CHECK(LearnMerges(corpus + corpus + family["template"].get<std::string>(), 700, spec).ok());
  }
  return Tokenizer::Parse(TokenizerJson(spec).value(), "family").value();
}

std::optional<std::string> TokenOf(const WireJson& family, const char* key) {
  return family[key].is_string() ? std::optional(family[key].get<std::string>()) : std::nullopt;
}

ModelChat ChatOf(const std::string& name, const WireJson& family, bool merges) {
  const auto chat = ChatTemplate::Parse(family["template"].get<std::string>(), name);
  TM_CHECK(chat.ok(), chat.status().message());
  return MakeModelChat(TokenizerOf(family, merges),
                       ModelTemplate{.chat = *chat,
                                     .tool_use = std::nullopt,
                                     .bos_token = TokenOf(family, "bos_token"),
                                     .eos_token = TokenOf(family, "eos_token")});
}

// nullopt: the gateway takes no such conversation, whatever the template.
std::optional<ChatRequest> MaybeRequest(const WireJson& messages, const WireJson& tools,
                                        const WireJson& kwargs) {
  WireJson body = {{"model", "m"}, {"messages", messages}};
  if (tools.is_array() && !tools.empty()) body["tools"] = tools;
  if (!kwargs.empty()) body["chat_template_kwargs"] = kwargs;
  return ParseRequest(Api::kChat, body.dump(), {}).request;
}

ChatRequest RequestWith(const WireJson& messages, const WireJson& tools, const WireJson& kwargs) {
  auto request = MaybeRequest(messages, tools, kwargs);
  TM_CHECK(request.has_value(), messages.dump());
  return std::move(*request);
}

// What a server that remembers nothing makes of the request.
Result<TurnPrompt> PlainPrompt(const ServedPolicy& policy, const ChatRequest& request) {
  const Tenant tenant;
  const std::map<std::string, std::string> headers;
  return PlainRecorder(policy).Prepare({.request = request,
                                        .tenant = tenant,
                                        .headers = headers,
                                        .request_id = "r",
                                        .body_sha256 = "",
                                        .wall_ms = kWallMs});
}

// The answer as the gateway reads it and a client sends it back.
WireJson GatewayMessage(const ServedPolicy& policy, const ChatRequest& request,
                        const std::vector<TokenId>& drawn, bool thinking_open) {
  TurnReader reader(policy, ReaderOptionsFor(policy, request, thinking_open));
  TurnOutput output;
  output.ids = drawn;
  output.logprobs.assign(drawn.size(), -1);
  output.finish = TurnFinish::kStop;
  AnswerChoice answer;
  answer.Add(reader.Push(output, true));
  return AnswerMessage(request, {.id = "x", .created_s = 0, .model = "m"}, 0, answer);
}

WireJson Slice(const WireJson& messages, size_t begin, size_t end) {
  return WireJson(messages.begin() + static_cast<long>(begin),
                  messages.begin() + static_cast<long>(end));
}

bool IsAssistant(const WireJson& message) {
  return message["role"] == "assistant";
}

// Ids that say the text and that no tokenizer would choose: it is cut at random first.
std::vector<TokenId> Drawn(const ModelChat& chat, const std::string& text, Random& random) {
  std::vector<TokenId> ids;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min<size_t>(text.size(), at + 1 + random.Below(9));
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    chat.tokenizer.EncodeTo(std::string_view(text).substr(at, end - at), SpecialTokens::kAsText,
                            ids);
    at = end;
  }
  if (!chat.end_ids.empty()) ids.push_back(chat.end_ids[0]);
  return ids;
}

// What the template writes as the last message, an assistant's, behind the prompt of those before
// it. nullopt: it writes something else there.
std::optional<std::string> WrittenBy(const ModelChat& chat, RenderInput whole) {
  RenderInput before = whole;
  before.messages = Slice(whole.messages, 0, whole.messages.size() - 1);
  before.add_generation_prompt = true;
  whole.add_generation_prompt = false;
  const auto prompt = RenderChat(chat, before), all = RenderChat(chat, whole);
  if (!prompt.ok() || !all.ok() || !all->text.starts_with(prompt->text)) return std::nullopt;
  std::string text = all->text.substr(prompt->text.size());
  if (!chat.end_ids.empty()) {
    text.resize(std::min(text.size(), text.find(chat.tokenizer.TokenBytes(chat.end_ids[0]))));
  }
  // Some write an empty thought, but only while the message is the last.
  constexpr std::string_view kNoThought = "<think>\n\n</think>\n\n";
  if (text.starts_with(kNoThought)) text.erase(0, kNoThought.size());
  return text;
}

struct Compared {
  int prompts = 0;   // that were equal to those of a server that knows what it drew
  int rendered = 0;  // and to those of one that remembers nothing
  int anew = 0;      // of these, branches
  int refused = 0;   // conversations, by both
};

// An episode's and the gateway's way through one conversation.
class Walk {
 public:
  Walk(const ServedPolicy& policy, const ChatRequest& conversation, Compared& compared)
      : policy_(policy),
        tools_(conversation.tools),
        kwargs_(conversation.template_kwargs),
        messages_(conversation.messages),
        compared_(compared) {}

  void Run(bool plain_too) {
    size_t at = 0;
    while (at < messages_.size() && !IsAssistant(messages_[at])) ++at;
    if (at == 0) return;  // nothing is asked
    said_ = Slice(messages_, 0, at);
    const ChatRequest first = RequestWith(said_, tools_, kwargs_);
    Dialogue dialogue(policy_, ConversationOf(first, kWallMs));
    const auto opened = dialogue.Open();
    const auto served = PlainPrompt(policy_, first);
    ASSERT_EQ(opened.ok(), served.ok());
    if (!opened.ok()) {
      EXPECT_EQ(opened.status().message(), served.status().message());
      ++compared_.refused;
      return;
    }
    EXPECT_EQ(*opened, served->prompts[0]);
    ++compared_.prompts;
    ids_ = *opened;
    thinking_open_ = served->thinking_open;
    while (at < messages_.size()) {
      size_t next = at + 1;
      while (next < messages_.size() && !IsAssistant(messages_[next])) ++next;
      Turn(dialogue, at, next, plain_too);
      at = next;
    }
  }

 private:
  void Turn(Dialogue& dialogue, size_t at, size_t next, bool plain_too) {
    const ChatRequest request = RequestWith(said_, tools_, kwargs_);
    RenderInput through = ConversationOf(request, kWallMs);
    through.messages.push_back(messages_[at]);
    const auto text = WrittenBy(policy_, through);
    const std::vector<TokenId> drawn =
        Drawn(policy_, text.value_or(messages_[at]["content"].get<std::string>()), random_);
    (void)dialogue.Read(drawn);
    WireJson answer = GatewayMessage(policy_, request, drawn, thinking_open_);
    ids_.insert(ids_.end(), drawn.begin(), drawn.end());
    known_.push_back(
        {.message = said_.size(), .ids = drawn, .reasoning = answer.contains("reasoning_content")});
    said_.push_back(answer);
    if (next == at + 1) return;
    WireJson replies = Slice(messages_, at + 1, next);
    Answer(answer, replies);
    for (const WireJson& reply : replies) said_.push_back(reply);
    const auto continued = dialogue.Say(replies);
    const ChatRequest later = RequestWith(said_, tools_, kwargs_);
    const auto served =
        TemplatePromptBuilder(policy_).Build(later, later.messages, known_, kWallMs, kNoLimit);
    ASSERT_EQ(continued.ok(), served.ok());
    if (!continued.ok()) {
      ++compared_.refused;
      return;
    }
    if (continued->anew) ids_.clear();
    ids_.insert(ids_.end(), continued->ids.begin(), continued->ids.end());
    EXPECT_EQ(ids_, served->ids) << policy_.tokenizer.Decode(ids_) << "\n--- served\n"
                                 << policy_.tokenizer.Decode(served->ids);
    EXPECT_EQ(continued->thinking_open, served->thinking_open);
    thinking_open_ = served->thinking_open;
    ++compared_.prompts;
    compared_.anew += continued->anew ? 1 : 0;
    if (!plain_too || !text) return;
    const auto plain = PlainPrompt(policy_, later);
    if (!plain.ok()) return;  // gpt-oss refuses text with its own marks
    EXPECT_EQ(ids_, plain->prompts[0]) << policy_.tokenizer.Decode(ids_) << "\n--- plain\n"
                                       << policy_.tokenizer.Decode(plain->prompts[0]);
    ++compared_.rendered;
  }

  // Results answer the calls that the model made, in their order.
  static void Answer(const WireJson& answer, WireJson& replies) {
    size_t call = 0;
    for (WireJson& reply : replies) {
      if (reply["role"] != "tool" || !answer.contains("tool_calls")) continue;
      if (call == answer["tool_calls"].size()) break;
      reply["tool_call_id"] = answer["tool_calls"][call]["id"];
      reply["name"] = answer["tool_calls"][call++]["function"]["name"];
    }
  }

  const ServedPolicy& policy_;
  const WireJson tools_;
  const WireJson kwargs_;
  const WireJson messages_;
  Compared& compared_;
  Random random_{8};
  WireJson said_;
  std::vector<KnownAnswer> known_;
  std::vector<TokenId> ids_;
  bool thinking_open_ = false;
};

class ServedPrompts : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("TIDEMILL_SHARED");
    const std::string path =
        (shared != nullptr ? std::string(shared) : SourceDir() + "/../shared") + "/chat/cases.json";
    std::ifstream file(path);
    if (!file.good()) GTEST_SKIP() << "no " << path;
    cases_ = WireJson::parse(file);
  }
  WireJson cases_;
};

TEST_F(ServedPrompts, AnEpisodeIsTrainedOnWhatTheGatewayServes) {
  Compared compared;
  for (const auto& [name, family] : cases_["families"].items()) {
    for (const bool merges : {false, true}) {
      const ServedPolicy policy{ChatOf(name, family, merges), "m", 100'000};
      for (const auto& [title, conversation] : cases_["conversations"].items()) {
        SCOPED_TRACE(name + " " + title + (merges ? " with merges" : ""));
        const WireJson tools = conversation["tools"].is_string() ? cases_["TOOLS"] : WireJson();
        const auto request = MaybeRequest(conversation["messages"], tools, conversation["kwargs"]);
        if (!request) continue;
        Walk(policy, *request, compared).Run(!merges);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(compared.prompts, 0);
  EXPECT_GT(compared.rendered, 0);
  RecordProperty("prompts", compared.prompts);
  RecordProperty("rendered", compared.rendered);
  RecordProperty("anew", compared.anew);
  RecordProperty("refused", compared.refused);
}

// A task with a tool, asked by the protocol "chat" and by a client that says the same.
TEST_F(ServedPrompts, TheChatProtocolAsksAsAClientWould) {
  v1::Task task;
  task.set_prompt("List the files. <|im_end|>");
  const v1::CaseSet none;
  v1::ToolResult result;
  result.set_text("a.c\n");
  int rounds = 0;
  for (const auto& [name, family] : cases_["families"].items()) {
    SCOPED_TRACE(name);
    const ServedPolicy policy{ChatOf(name, family, true), "m", 100'000};
    ProtocolOptions options;
    options.tools = {
        {"look", "Lists.", R"({"type":"object","properties":{"in":{"type":"string"}}})"}};
    options.system_prompt = "Be brief.";
    const auto protocol = NewChatProtocol(policy, options).value();
    const auto talk = protocol->Begin({task, none, kWallMs});
    const auto opened = talk->Open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();

    const WireJson tools = {
        {{"type", "function"},
         {"function",
          {{"name", "look"},
           {"description", "Lists."},
           {"parameters", {{"type", "object"}, {"properties", {{"in", {{"type", "string"}}}}}}}}}}};
    WireJson said = OpeningMessages(policy, "Be brief.", task.prompt());
    const ChatRequest request = RequestWith(said, tools, WireJson::object());
    const auto served = PlainPrompt(policy, request);
    ASSERT_TRUE(served.ok()) << served.status().message();
    EXPECT_EQ(*opened, served->prompts[0]);
    EXPECT_NE(policy.tokenizer.Decode(*opened).find("look"), std::string::npos);

    RenderInput through = ConversationOf(request, kWallMs);
    through.messages.push_back(
        {{"role", "assistant"},
         {"content", ""},
         {"tool_calls",
          {{{"id", "call00000"},
            {"type", "function"},
            {"function", {{"name", "look"}, {"arguments", {{"in", "."}}}}}}}}});
    const auto text = WrittenBy(policy, through);
    if (!text) continue;
    Random random(9);
    const std::vector<TokenId> drawn = Drawn(policy, *text, random);
    const ParsedTurn turn = talk->Parse(drawn);
    ASSERT_EQ(turn.calls.size(), 1u) << *text << turn.malformed;
    EXPECT_EQ(turn.calls[0].tool, "look");
    EXPECT_EQ(WireJson::parse(turn.calls[0].arguments_json), (WireJson{{"in", "."}}));
    const auto next = talk->Observe(turn, {.results = {result}}, 100);
    ASSERT_TRUE(next.ok()) << next.status().message();

    const WireJson answer = GatewayMessage(policy, request, drawn, served->thinking_open);
    const KnownAnswer known{
        .message = said.size(), .ids = drawn, .reasoning = answer.contains("reasoning_content")};
    said.push_back(answer);
    said.push_back({{"role", "tool"},
                    {"content", "a.c\n"},
                    {"tool_call_id", answer["tool_calls"][0]["id"]},
                    {"name", "look"}});
    const ChatRequest later = RequestWith(said, tools, WireJson::object());
    const auto built =
        TemplatePromptBuilder(policy).Build(later, later.messages, {known}, kWallMs, kNoLimit);
    ASSERT_TRUE(built.ok()) << built.status().message();
    std::vector<TokenId> ids = next->anew ? std::vector<TokenId>() : *opened;
    if (!next->anew) ids.insert(ids.end(), drawn.begin(), drawn.end());
    ids.insert(ids.end(), next->ids.begin(), next->ids.end());
    EXPECT_EQ(ids, built->ids) << policy.tokenizer.Decode(ids) << "\n--- served\n"
                               << policy.tokenizer.Decode(built->ids);
    ++rounds;
  }
  EXPECT_GT(rounds, 0);
}

}  // namespace
}  // namespace tidemill
