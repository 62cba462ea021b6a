// One question, one answer, in the model's own chat template and without tools:
//   user:      the task
//   assistant: .. ```python\n..\n``` .. <|im_end|>
//   user:      what the failing test said            (only where the task allows another turn)
// The answer is the first fenced block, or the whole text where there is none; the task says which
// file it becomes.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/generation_config.h"
#include "model/model_template.h"
#include "model/tokenizer.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr std::string_view kFence = "```";
// Stands for what the model wrote where a later turn is rendered: only what goes behind it is used.
constexpr std::string_view kWritten = "tidemill-what-the-model-wrote";

// What stands in the first fence, which need not be closed; the first line of it names a language.
// Nothing: there is no fence.
std::optional<std::string> FirstFencedBlock(std::string_view text) {
  const size_t open = text.find(kFence);
  if (open == std::string_view::npos) return std::nullopt;
  const size_t line = text.find('\n', open);
  if (line == std::string_view::npos) return std::nullopt;
  const size_t close = text.find(kFence, line);
  return std::string(text.substr(
      line + 1, close == std::string_view::npos ? std::string_view::npos : close - line - 1));
}

bool OnlySpace(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// What a template writes behind the model's text, with the spans that came from outside.
Result<Rendered> BehindTheAnswer(const ModelTemplate& chat, ChatJson messages, bool open_next) {
  TM_ASSIGN_OR_RETURN(Rendered all, chat.Render({.messages = std::move(messages),
                                                 .add_generation_prompt = open_next}));
  const size_t at = all.text.rfind(kWritten);
  if (at == std::string::npos) return Invalid("the chat template does not show an answer");
  const size_t cut = at + kWritten.size();
  Rendered rest{.text = all.text.substr(cut), .outside = {}};
  for (const TextSpan& span : all.outside) {
    if (span.end <= cut) continue;
    rest.outside.push_back({std::max(span.begin, cut) - cut, span.end - cut});
  }
  return rest;
}

class AnswerProtocol final : public AgentProtocol {
 public:
  AnswerProtocol(Tokenizer tokenizer, ModelTemplate chat, std::vector<TokenId> stop_ids,
                 std::string system)
      : tokenizer_(std::move(tokenizer)),
        chat_(std::move(chat)),
        stop_ids_(std::move(stop_ids)),
        system_(std::move(system)) {}

  std::string_view name() const override { return "answer"; }

  // Empty: the template refused the conversation, which ends the episode.
  std::vector<TokenId> Prompt(const v1::Task& task, const v1::CaseSet& cases) const override {
    const auto rendered =
        chat_.Render({.messages = Question(task, CasesText(cases)), .add_generation_prompt = true});
    return rendered.ok() ? EncodeRendered(tokenizer_, *rendered) : std::vector<TokenId>{};
  }

  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }

  ParsedTurn Parse(const v1::Task&, std::span<const TokenId> ids) const override {
    const bool ended = !ids.empty() &&
                       std::find(stop_ids_.begin(), stop_ids_.end(), ids.back()) != stop_ids_.end();
    const std::string text = tokenizer_.Decode(ended ? ids.first(ids.size() - 1) : ids);
    ParsedTurn turn;
    std::string answer = FirstFencedBlock(text).value_or(text);
    if (OnlySpace(answer)) {
      turn.malformed = "an empty answer";
    } else {
      turn.answer = std::move(answer);
    }
    return turn;
  }

  bool ChecksAnswers() const override { return true; }

  std::vector<TokenId> Observe(const v1::Task& task, const ParsedTurn& turn,
                               const std::vector<v1::ToolResult>& results,
                               size_t max_tokens) const override {
    std::string said = turn.malformed.empty() ? "" : "There was no code in the answer.\n";
    for (const v1::ToolResult& result : results) said += Cut(result.text(), max_tokens) + "\n";
    ChatJson messages = Question(task);
    messages.push_back({{"role", "assistant"}, {"content", kWritten}});
    messages.push_back({{"role", "user"},
                        {"content", "The answer is wrong.\n" + said + "Give the corrected code."}});
    const auto rest = BehindTheAnswer(chat_, std::move(messages), true);
    if (!rest.ok()) return {};
    std::vector<TokenId> ids = EncodeRendered(tokenizer_, *rest);
    // The model wrote the end of its turn itself.
    if (!ids.empty() && ids.front() == stop_ids_.front()) ids.erase(ids.begin());
    return ids;
  }

  std::string Text(std::span<const TokenId> ids) const override { return tokenizer_.Decode(ids); }

 private:
  ChatJson Question(const v1::Task& task, const std::string& before = "") const {
    ChatJson messages = ChatJson::array();
    if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
    messages.push_back({{"role", "user"}, {"content", before + PromptText(task)}});
    return messages;
  }

  // The beginning: a failing test's assertion and what came instead stand first.
  std::string Cut(const std::string& text, size_t max_tokens) const {
    const std::vector<TokenId> ids = tokenizer_.Encode(text, SpecialTokens::kAsText);
    if (ids.size() <= max_tokens) return text;
    return tokenizer_.Decode(std::span<const TokenId>(ids).first(max_tokens)) + "..";
  }

  Tokenizer tokenizer_;
  ModelTemplate chat_;
  std::vector<TokenId> stop_ids_;
  std::string system_;
};

// The token the template ends the model's turn with, then those its author ends texts with.
Result<std::vector<TokenId>> StopIds(const Tokenizer& tokenizer, const ModelTemplate& chat,
                                     const std::string& model_dir) {
  const ChatJson probe = {{{"role", "user"}, {"content", "a"}},
                          {{"role", "assistant"}, {"content", kWritten}}};
  TM_ASSIGN_OR_RETURN(const Rendered rest, BehindTheAnswer(chat, probe, false));
  std::vector<TokenId> stop_ids;
  const std::vector<TokenId> behind = EncodeRendered(tokenizer, rest);
  if (!behind.empty() && tokenizer.IsSpecial(behind.front())) stop_ids.push_back(behind.front());
  if (const auto generation = ReadGenerationConfig(model_dir); generation.ok()) {
    for (const TokenId id : generation->eos_token_ids) {
      if (std::find(stop_ids.begin(), stop_ids.end(), id) == stop_ids.end()) stop_ids.push_back(id);
    }
  }
  if (stop_ids.empty()) {
    return Invalid(
        "neither the chat template nor generation_config.json names a token that ends "
        "an answer");
  }
  return stop_ids;
}

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewAnswerProtocol(const Tokenizer& tokenizer,
                                                         const std::string& model_dir,
                                                         const ProtocolOptions& options,
                                                         std::string* warning) {
  TM_ASSIGN_OR_RETURN(ModelTemplate chat, ReadModelTemplate(model_dir));
  if (warning != nullptr && chat.fallback) {
    *warning = model_dir + " has no chat template; ChatML is used, for its tokens are there";
  }
  TM_ASSIGN_OR_RETURN(std::vector<TokenId> stop_ids, StopIds(tokenizer, chat, model_dir));
  return std::unique_ptr<AgentProtocol>(
      new AnswerProtocol(tokenizer, std::move(chat), std::move(stop_ids), options.system_prompt));
}

}  // namespace tidemill
