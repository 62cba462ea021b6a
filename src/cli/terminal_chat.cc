#include "cli/terminal_chat.h"

#include <chrono>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "core/files.h"
#include "core/text.h"
#include "http/http_pool.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr Duration kSilence = std::chrono::minutes(10);
constexpr size_t kErrorBytes = 4096;
constexpr const char* kHelp =
    "/system TEXT  begin anew with this system message; without TEXT with none\n"
    "/new          begin anew\n"
    "/save FILE    write the conversation as JSON\n"
    "/tokens       tokens so far\n"
    "/quit         end (also Ctrl-D)\n";

// The events of one answer as they arrive.
class AnswerEvents final : public HttpCallUser {
 public:
  AnswerEvents(HttpPool& pool, std::function<void(const std::string&)> text)
      : pool_(pool), text_(std::move(text)) {}

  void OnPiece(HttpCallId, int status, std::string_view bytes) override {
    if (status != 200) {
      if (rest_.size() < kErrorBytes) rest_ += bytes.substr(0, kErrorBytes);
      return;
    }
    rest_ += bytes;
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      Line(std::string_view(rest_).substr(0, end));
      rest_.erase(0, end + 1);
    }
  }

  void OnEnd(HttpCallId, const Result<int>& status) override {
    if (!status.ok()) {
      status_ = status.status();
    } else if (*status != 200) {
      const Json body = Json::parse(rest_, nullptr, false);
      std::string why = rest_;
      if (body.is_object() && body.contains("error") && body["error"].is_object()) {
        why = body["error"].value("message", rest_);
      }
      status_ = Invalid("the server answered " + std::to_string(*status) + ": " + ToUtf8(why));
    }
    pool_.Stop();
  }

  const Status& status() const { return status_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t answer_tokens() const { return answer_tokens_; }
  const std::string& answer() const { return answer_; }

 private:
  void Line(std::string_view line) {
    static constexpr std::string_view kData = "data:";
    if (line.substr(0, kData.size()) != kData) return;
    const Json event = Json::parse(line.substr(kData.size()), nullptr, false);
    if (!event.is_object()) return;
    if (event.contains("error") && event["error"].is_object()) {
      status_ = Unavailable(event["error"].value("message", std::string("the answer broke off")));
    }
    if (event.contains("usage") && event["usage"].is_object()) {
      prompt_tokens_ = event["usage"].value("prompt_tokens", int64_t{0});
      answer_tokens_ = event["usage"].value("completion_tokens", int64_t{0});
    }
    if (!event.contains("choices") || !event["choices"].is_array()) return;
    for (const Json& choice : event["choices"]) {
      if (!choice.is_object() || !choice.contains("delta") || !choice["delta"].is_object())
        continue;
      const Json& delta = choice["delta"];
      Show(delta, "reasoning_content", true);
      Show(delta, "content", false);
    }
  }

  void Show(const Json& delta, const char* field, bool thought) {
    if (!delta.contains(field) || !delta[field].is_string()) return;
    const std::string text = delta[field].get<std::string>();
    if (text.empty()) return;
    if (thinking_ && !thought) text_("\n\n");
    thinking_ = thought;
    if (!thought) answer_ += text;
    text_(text);
  }

  HttpPool& pool_;
  const std::function<void(const std::string&)> text_;
  std::string rest_, answer_;
  bool thinking_ = false;
  int64_t prompt_tokens_ = 0, answer_tokens_ = 0;
  Status status_;
};

}  // namespace

TerminalChat::TerminalChat(TerminalChatOptions options, std::FILE* out)
    : options_(std::move(options)), out_(out) {
  Forget();
}

void TerminalChat::Print(const std::string& text) const {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void TerminalChat::Forget() {
  messages_ = Json::array();
  if (!options_.system.empty()) {
    messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }
}

// A server's address may end with "/v1", as other clients want it.
std::string TerminalChat::Path(const std::string& path) const {
  std::string base = options_.server.path == "/" ? "" : options_.server.path;
  if (base.ends_with("/v1")) base.resize(base.size() - 3);
  return base + path;
}

Status TerminalChat::Begin() {
  if (!options_.model.empty()) return Ok();
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<HttpPeer> peer, HttpPeer::Make(options_.server, {}));
  HttpAsk ask{.method = "GET", .target = Path("/v1/models"), .headers = {}, .body = {}};
  if (!options_.key.empty()) ask.headers.emplace_back("Authorization", "Bearer " + options_.key);
  TM_ASSIGN_OR_RETURN(const HttpAnswer answer, peer->Ask(ask, kPatience));
  const Json body = Json::parse(answer.body, nullptr, false);
  const bool lists = answer.status == 200 && body.is_object() && body.contains("data") &&
                     body["data"].is_array() && !body["data"].empty() &&
                     body["data"][0].is_object();
  if (!lists) {
    return Invalid("GET /v1/models of " + options_.server.Authority() + " answered " +
                   std::to_string(answer.status) + " and lists no model; name one with --model");
  }
  options_.model = body["data"][0].value("id", std::string());
  return Ok();
}

bool TerminalChat::Take(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  if (line[0] == '/') return Command(line);
  Say(line);
  return true;
}

bool TerminalChat::Command(const std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const std::string word = line.substr(0, space);
  const std::string rest = space < line.size() ? line.substr(space + 1) : "";
  if (word == "/quit" || word == "/exit") return false;
  if (word == "/system") {
    options_.system = rest;
    Forget();
  } else if (word == "/new") {
    Forget();
  } else if (word == "/save") {
    const Status saved = rest.empty() ? Invalid("/save needs a file") : Save(rest);
    Print(saved.ok() ? "saved to " + rest + "\n" : saved.message() + "\n");
  } else if (word == "/tokens") {
    Print(std::to_string(prompt_tokens_) + " tokens of prompts, " + std::to_string(answer_tokens_) +
          " of answers\n");
  } else {
    Print(word == "/help" ? kHelp : "unknown: " + word + "\n" + kHelp);
  }
  return true;
}

void TerminalChat::Say(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", ToUtf8(text)}});
  std::string answer;
  const Status asked = Ask(answer);
  if (!asked.ok()) {
    // The question is not part of the conversation, so that it can be asked again.
    messages_.erase(messages_.end() - 1);
    return Print("\n" + Shown(asked.message(), out_) + "\n");
  }
  messages_.push_back({{"role", "assistant"}, {"content", answer}});
}

Status TerminalChat::Ask(std::string& answer) {
  Json body = {{"model", options_.model},
               {"messages", messages_},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (options_.temperature) body["temperature"] = *options_.temperature;
  if (options_.max_tokens) body["max_tokens"] = *options_.max_tokens;
  HttpAsk ask{.target = Path("/v1/chat/completions"),
              .headers = {{"Content-Type", "application/json"}},
              .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
  if (!options_.key.empty()) ask.headers.emplace_back("Authorization", "Bearer " + options_.key);
  HttpPool pool;
  AnswerEvents events(pool, [this](const std::string& piece) { Print(Shown(piece, out_)); });
  (void)pool.Begin(options_.server, ask, kSilence, events);
  pool.Run([] { return kNever; });
  TM_RETURN_IF_ERROR(events.status());
  answer = events.answer();
  prompt_tokens_ += events.prompt_tokens();
  answer_tokens_ += events.answer_tokens();
  Print("\n[" + std::to_string(events.prompt_tokens()) + " + " +
        std::to_string(events.answer_tokens()) + " tokens]\n");
  return Ok();
}

Status TerminalChat::Save(const std::string& path) const {
  const Json saved = {{"model", options_.model}, {"messages", messages_}};
  return WriteFileAtomically(path,
                             saved.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tidemill
