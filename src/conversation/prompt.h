// The prompt of a turn: the template renders the whole conversation, what the model wrote stands in
// it as the ids that were drawn, and everything else is encoded with special tokens off for what
// came from the conversation.
//
//   messages, known answers -> render with marks -> cut at the marks -> encode | ids | encode ..
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "conversation/model_chat.h"

namespace tidemill {

// An answer of the model in a conversation, as it was drawn.
struct KnownAnswer {
  size_t message = 0;          // which of the messages it is
  std::vector<TokenId> ids{};  // up to the first that a stop string touches
  std::string tail{};          // text behind them that the client was given
  bool reasoning = false;      // a thought was read in it
};

struct BuiltPrompt {
  std::vector<TokenId> ids{};
  size_t more = 0;             // at least so many tokens follow; 0: these are all
  bool thinking_open = false;  // it ends inside of a think block
};

// `conversation` opens the model's turn. An answer that the template does not show as it was drawn
// (older reasoning is dropped, say) is rendered and encoded like any other text. Behind
// `tokens_max` it may end early. kInvalid: the conversation cannot be rendered or encoded, or is
// empty.
Result<BuiltPrompt> BuildPrompt(const ModelChat& chat, const RenderInput& conversation,
                                const std::vector<KnownAnswer>& answers,
                                size_t tokens_max = std::numeric_limits<size_t>::max());

// The continuation of a sequence behind the last of `answers`, which is not empty: the ids behind
// those it drew.
struct NextPrompt {
  std::vector<TokenId> ids{};
  bool anew =
      false;  // the ids are a whole prompt: the template writes what came before differently
  bool thinking_open = false;
};
Result<NextPrompt> ContinuePrompt(const ModelChat& chat, const RenderInput& conversation,
                                  const std::vector<KnownAnswer>& answers);

}  // namespace tidemill
