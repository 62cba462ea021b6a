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

class CompactProtocol final : public AgentProtocol {
 public:
  CompactProtocol(Tokenizer tokenizer, TokenId end, TokenId fail)
      : tokenizer_(std::move(tokenizer)), end_(end), fail_(fail), stop_ids_{end} {}

  std::string_view name() const override { return "compact"; }

  std::vector<TokenId> Prompt(const v1::Task& task, const v1::CaseSet& cases) const override {
    std::vector<TokenId> ids;
    for (int i = cases.cases_size() - 1; i >= 0; --i) {
      const v1::ShownCase& shown = cases.cases(i);
      if (shown.prompt().empty()) continue;  // what is known of tools, which it has none of
      tokenizer_.EncodeTo(shown.prompt() + shown.answer(), SpecialTokens::kAsText, ids);
      ids.push_back(shown.solved() ? end_ : fail_);
    }
    tokenizer_.EncodeTo(task.prompt(), SpecialTokens::kAsText, ids);
    return ids;
  }

  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }

  ParsedTurn Parse(const v1::Task&, std::span<const TokenId> ids) const override {
    ParsedTurn turn;
    if (!ids.empty() && ids.back() == end_) ids = ids.first(ids.size() - 1);
    std::string text = tokenizer_.Decode(ids);
    if (text.empty())
      turn.malformed = "an empty answer";
    else
      turn.answer = std::move(text);
    return turn;
  }

  bool ChecksAnswers() const override { return true; }

  std::vector<TokenId> Observe(const v1::Task& task, const ParsedTurn&,
                               const std::vector<v1::ToolResult>& results,
                               size_t max_tokens) const override {
    std::vector<TokenId> ids = {fail_};
    if (!results.empty() && results[0].failures_size() > 0) {
      std::vector<TokenId> failure =
          tokenizer_.Encode(results[0].failures(0).name(), SpecialTokens::kAsText);
      if (failure.size() > max_tokens) failure.resize(max_tokens);
      ids.insert(ids.end(), failure.begin(), failure.end());
    }
    if (const size_t line = task.prompt().rfind('\n'); line != std::string::npos) {
      tokenizer_.EncodeTo(std::string_view(task.prompt()).substr(line), SpecialTokens::kAsText,
                          ids);
    }
    return ids;
  }

  std::string Text(std::span<const TokenId> ids) const override { return tokenizer_.Decode(ids); }

 private:
  Tokenizer tokenizer_;
  TokenId end_;
  TokenId fail_;
  std::vector<TokenId> stop_ids_;
};

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewCompactProtocol(const Tokenizer& tokenizer) {
  const auto end = tokenizer.AddedTokenId("<|end|>"), fail = tokenizer.AddedTokenId("<|fail|>");
  if (!end || !fail) {
    return Invalid(
        std::string("the tokenizer has no token ") + (end ? "<|fail|>" : "<|end|>") +
        ", which the compact protocol needs; protocol = \"hermes\" works with chat models");
  }
  return std::unique_ptr<AgentProtocol>(new CompactProtocol(tokenizer, *end, *fail));
}

}  // namespace tidemill
