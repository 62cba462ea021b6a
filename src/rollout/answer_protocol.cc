// One question, one answer, in the model's own chat template and without tools:
//   user:      the task
//   assistant: .. ```python\n..\n``` .. <|im_end|>
//   user:      what the failing test said            (only where the task allows another turn)
// The answer is the first fenced block, or the whole text where there is none; the task says which
// file it becomes.
#include "conversation/dialogue.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

constexpr std::string_view kFence = "```";

// The content of the first fence, which need not be closed; the first line of it names a language.
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

class AnswerTalk final : public EpisodeTalk {
 public:
  AnswerTalk(const ModelChat& chat, RenderInput opening)
      : chat_(chat), dialogue_(chat, std::move(opening)) {}

  Result<std::vector<TokenId>> Open() const override { return dialogue_.Open(); }

  ParsedTurn Parse(std::span<const TokenId> ids) override {
    const std::string text = dialogue_.Read(ids).content;
    ParsedTurn turn;
    turn.text = text;
    std::string answer = FirstFencedBlock(text).value_or(text);
    if (OnlySpace(answer)) {
      turn.malformed = "an empty answer";
    } else {
      turn.answer = std::move(answer);
    }
    return turn;
  }

  Result<NextPrompt> Observe(const ParsedTurn& turn, const TurnReplies& replies,
                             size_t max_tokens) override {
    std::string said = turn.malformed.empty() ? "" : "There was no code in the answer.\n";
    for (const v1::ToolResult& result : replies.results)
      said += Cut(result.text(), max_tokens) + "\n";
    return dialogue_.Say(nlohmann::ordered_json::array(
        {SaidBy("user", "The answer is wrong.\n" + said + "Give the corrected code.")}));
  }

  Result<NextPrompt> Hear(const std::string& given) override {
    return dialogue_.Say(nlohmann::ordered_json::array({SaidBy("user", given)}));
  }

 private:
  // The beginning: a failing test's assertion and what came instead stand first.
  std::string Cut(const std::string& text, size_t max_tokens) const {
    const std::vector<TokenId> ids = chat_.tokenizer.Encode(text, SpecialTokens::kAsText);
    if (ids.size() <= max_tokens) return text;
    return chat_.tokenizer.Decode(std::span<const TokenId>(ids).first(max_tokens)) + "..";
  }

  const ModelChat& chat_;
  Dialogue dialogue_;
};

class AnswerProtocol final : public AgentProtocol {
 public:
  AnswerProtocol(ModelChat chat, std::string system)
      : chat_(std::move(chat)), system_(std::move(system)) {}

  std::string_view name() const override { return "answer"; }
  const std::vector<TokenId>& stop_ids() const override { return chat_.end_ids; }
  bool ChecksAnswers() const override { return true; }

  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const override {
    const std::string asked = CasesText(opening.cases) + PromptText(opening.task);
    return std::make_unique<AnswerTalk>(
        chat_, RenderInput{.messages = OpeningMessages(chat_, system_, asked),
                           .now = LocalTime(opening.wall_ms / 1000)});
  }

 private:
  const ModelChat chat_;
  const std::string system_;
};

}  // namespace

std::unique_ptr<AgentProtocol> NewAnswerProtocol(ModelChat chat, const ProtocolOptions& options) {
  return std::make_unique<AnswerProtocol>(std::move(chat), options.system_prompt);
}

}  // namespace tidemill
