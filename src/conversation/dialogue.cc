#include "conversation/dialogue.h"

namespace tidemill {

Result<std::vector<TokenId>> Dialogue::Open() const {
  TM_ASSIGN_OR_RETURN(BuiltPrompt prompt, BuildPrompt(chat_, conversation_, answers_));
  return std::move(prompt.ids);
}

bool Dialogue::ThinkingOpen() {
  if (!thinking_open_) {
    const auto prompt = BuildPrompt(chat_, conversation_, answers_);
    thinking_open_ = prompt.ok() && prompt->thinking_open;
  }
  return *thinking_open_;
}

WrittenTurn Dialogue::Read(std::span<const TokenId> ids) {
  WrittenTurn turn = ReadTurn(chat_, ids, ThinkingOpen(), conversation_.tools);
  first_call_ = calls_;
  calls_ += turn.calls.size();
  answers_.push_back({.message = conversation_.messages.size(),
                      .ids = std::vector<TokenId>(ids.begin(), ids.end()),
                      .reasoning = !turn.reasoning.empty()});
  conversation_.messages.push_back(MessageOf(turn, first_call_));
  return turn;
}

Result<NextPrompt> Dialogue::Say(const nlohmann::ordered_json& messages) {
  for (const auto& message : messages) conversation_.messages.push_back(message);
  TM_ASSIGN_OR_RETURN(NextPrompt next, ContinuePrompt(chat_, conversation_, answers_));
  thinking_open_ = next.thinking_open;
  return next;
}

}  // namespace tidemill
