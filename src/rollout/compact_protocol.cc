// prompt | answer <|end|> | <|fail|> first failing example, opening | answer <|end|> | ..
//
// A case stands before the prompt as an episode would: its prompt, its answer, and <|end|> where
// that was right or <|fail|> where it was not.
//
// The opening is the prompt's last line with the line break before it ("\nreturn "), so that every
// attempt begins the same way.
#include "model/tokenizer.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

struct CompactWords {
  Tokenizer tokenizer;
  TokenId end;
  TokenId fail;
};

class CompactTalk final : public EpisodeTalk {
 public:
  CompactTalk(const CompactWords& words, const EpisodeOpening& opening)
      : words_(words), task_(opening.task), cases_(opening.cases) {}

  Result<std::vector<TokenId>> Open() const override {
    std::vector<TokenId> ids;
    for (const v1::ShownSkill& skill : cases_.skills()) {
      words_.tokenizer.EncodeTo(skill.text() + "\n", SpecialTokens::kAsText, ids);
    }
    for (int i = cases_.cases_size() - 1; i >= 0; --i) {
      const v1::ShownCase& shown = cases_.cases(i);
      words_.tokenizer.EncodeTo(shown.prompt() + shown.answer(), SpecialTokens::kAsText, ids);
      ids.push_back(shown.solved() ? words_.end : words_.fail);
    }
    words_.tokenizer.EncodeTo(task_.prompt(), SpecialTokens::kAsText, ids);
    return ids;
  }

  ParsedTurn Parse(std::span<const TokenId> ids) override {
    ParsedTurn turn;
    if (!ids.empty() && ids.back() == words_.end) ids = ids.first(ids.size() - 1);
    turn.text = words_.tokenizer.Decode(ids);
    if (turn.text.empty())
      turn.malformed = "an empty answer";
    else
      turn.answer = turn.text;
    return turn;
  }

  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies& replies,
                             size_t max_tokens) override {
    const std::vector<v1::ToolResult>& results = replies.results;
    std::vector<TokenId> ids = {words_.fail};
    if (!results.empty() && results[0].failures_size() > 0) {
      std::vector<TokenId> failure =
          words_.tokenizer.Encode(results[0].failures(0).name(), SpecialTokens::kAsText);
      if (failure.size() > max_tokens) failure.resize(max_tokens);
      ids.insert(ids.end(), failure.begin(), failure.end());
    }
    AddOpening(ids);
    return NextPrompt{.ids = std::move(ids)};
  }

  Result<NextPrompt> Hear(const std::string& given) override {
    std::vector<TokenId> ids = {words_.fail};
    words_.tokenizer.EncodeTo(given, SpecialTokens::kAsText, ids);
    AddOpening(ids);
    return NextPrompt{.ids = std::move(ids)};
  }

 private:
  void AddOpening(std::vector<TokenId>& ids) const {
    if (const size_t line = task_.prompt().rfind('\n'); line != std::string::npos) {
      words_.tokenizer.EncodeTo(std::string_view(task_.prompt()).substr(line),
                                SpecialTokens::kAsText, ids);
    }
  }

  const CompactWords& words_;
  const v1::Task& task_;
  const v1::CaseSet cases_;
};

class CompactProtocol final : public AgentProtocol {
 public:
  explicit CompactProtocol(CompactWords words) : words_(std::move(words)), stop_ids_{words_.end} {}

  std::string_view name() const override { return "compact"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }
  bool ChecksAnswers() const override { return true; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const override {
    return std::make_unique<CompactTalk>(words_, opening);
  }

 private:
  const CompactWords words_;
  const std::vector<TokenId> stop_ids_;
};

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewCompactProtocol(const Tokenizer& tokenizer) {
  const auto end = tokenizer.AddedTokenId("<|end|>"), fail = tokenizer.AddedTokenId("<|fail|>");
  if (!end || !fail) {
    return Invalid(
        std::string("the tokenizer has no token ") + (end ? "<|fail|>" : "<|end|>") +
        ", which the compact protocol needs; protocol = \"chat\" works with chat models");
  }
  return std::unique_ptr<AgentProtocol>(new CompactProtocol({tokenizer, *end, *fail}));
}

}  // namespace tidemill
