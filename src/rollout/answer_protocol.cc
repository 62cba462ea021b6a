// One question, one answer, in the model's own chat format and without tools:
//   user:      the task
//   assistant: .. ```python\n..\n``` .. <|im_end|>
//   user:      what the failing test said            (only where the task allows another turn)
// The answer is the first fenced block, or the whole text where there is none; the task says which
// file it becomes.
#include <algorithm>

#include "policy/chat.h"
#include "policy/generation_config.h"
#include "policy/tokenizer.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

constexpr std::string_view kFence = "```";

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

class AnswerProtocol final : public AgentProtocol {
 public:
  AnswerProtocol(Tokenizer tokenizer, ChatFormat chat, std::vector<TokenId> stop_ids,
                 std::string system)
      : tokenizer_(std::move(tokenizer)),
        chat_(std::move(chat)),
        stop_ids_(std::move(stop_ids)),
        system_(std::move(system)) {}

  std::string_view name() const override { return "answer"; }

  std::vector<TokenId> Prompt(const v1::Task& task) const override {
    std::vector<Message> messages;
    if (!system_.empty()) messages.push_back({Role::kSystem, system_});
    std::string prompt = task.prompt();
    for (const v1::File& file : task.files()) {
      prompt += "\n\nFile " + file.path() + ":\n" + file.content();
    }
    messages.push_back({Role::kUser, std::move(prompt)});
    return chat_.Render(messages, true);
  }

  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }

  ParsedTurn Parse(const v1::Task&, std::span<const TokenId> ids) const override {
    if (!ids.empty() &&
        std::find(stop_ids_.begin(), stop_ids_.end(), ids.back()) != stop_ids_.end())
      ids = ids.first(ids.size() - 1);
    const std::string text = tokenizer_.Decode(ids);
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

  std::vector<TokenId> Observe(const v1::Task&, const ParsedTurn& turn,
                               const std::vector<v1::ToolResult>& results,
                               size_t max_tokens) const override {
    std::string said = turn.malformed.empty() ? "" : "There was no code in the answer.\n";
    for (const v1::ToolResult& result : results) said += Cut(result.text(), max_tokens) + "\n";
    const std::vector<Message> messages = {
        {Role::kUser, "The answer is wrong.\n" + said + "Give the corrected code."}};
    const TokenId end = chat_.turn_end();
    return chat_.RenderContinuation({&end, 1}, messages);
  }

  std::string Text(std::span<const TokenId> ids) const override { return tokenizer_.Decode(ids); }

 private:
  // The beginning: a failing test's assertion and what came instead stand first.
  std::string Cut(const std::string& text, size_t max_tokens) const {
    const std::vector<TokenId> ids = tokenizer_.Encode(text, SpecialTokens::kAsText);
    if (ids.size() <= max_tokens) return text;
    return tokenizer_.Decode(std::span<const TokenId>(ids).first(max_tokens)) + "..";
  }

  Tokenizer tokenizer_;
  ChatFormat chat_;
  std::vector<TokenId> stop_ids_;
  std::string system_;
};

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewAnswerProtocol(const Tokenizer& tokenizer,
                                                         const std::string& model_dir,
                                                         const ProtocolOptions& options,
                                                         std::string* warning) {
  TM_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(model_dir));
  TM_ASSIGN_OR_RETURN(ChatFormat chat, ChatFormat::Choose(tokenizer, config, warning));
  std::vector<TokenId> stop_ids = {chat.turn_end()};
  if (const auto generation = ReadGenerationConfig(model_dir); generation.ok()) {
    for (const TokenId id : generation->eos_token_ids) {
      if (id != chat.turn_end()) stop_ids.push_back(id);
    }
  }
  return std::unique_ptr<AgentProtocol>(
      new AnswerProtocol(tokenizer, std::move(chat), std::move(stop_ids), options.system_prompt));
}

}  // namespace tidemill
