// A conversation whose assistant is the model: an episode's. What the model writes is never
// tokenized again; what others say is rendered by the template and encoded with special tokens off.
//
//   Open -> prompt -> (the model draws ids) -> Read -> what it said -> Say(replies) -> next prompt
//   ..
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "conversation/prompt.h"
#include "conversation/written_turn.h"

namespace tidemill {

// Belongs to one episode; not thread-safe. `chat` must outlive it.
class Dialogue {
 public:
  // Messages, tools, kwargs and time of the conversation so far.
  Dialogue(const ModelChat& chat, RenderInput opening)
      : chat_(chat), conversation_(std::move(opening)) {}

  // The first prompt. kInvalid: the template refuses the conversation.
  Result<std::vector<TokenId>> Open() const;
  // The model's turn behind the last prompt, with the token that ended it.
  WrittenTurn Read(std::span<const TokenId> ids);
  // Whether the last prompt ends inside of a think block.
  bool ThinkingOpen();
  // The replies to it, in order.
  Result<NextPrompt> Say(const nlohmann::ordered_json& messages);

  // The id of a call of the last turn, for the result that answers it.
  std::string CallId(size_t call) const { return WrittenCallId(first_call_ + call); }
  const RenderInput& conversation() const { return conversation_; }
  const std::vector<KnownAnswer>& answers() const { return answers_; }

 private:
  const ModelChat& chat_;
  RenderInput conversation_;
  std::vector<KnownAnswer> answers_;
  std::optional<bool> thinking_open_;  // of the last prompt; none: not known yet
  size_t first_call_ = 0;              // of the last turn
  size_t calls_ = 0;                   // so far
};

}  // namespace tidemill
