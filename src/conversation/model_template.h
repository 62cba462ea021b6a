// The chat template of a model directory.
#pragma once

#include <optional>
#include <string>

#include "conversation/jinja/chat_template.h"
#include "model/tokenizer.h"

namespace tidemill {

// Immutable, thread-safe.
struct ModelTemplate {
  ChatTemplate chat;
  std::optional<ChatTemplate> tool_use;  // for conversations with tools, where it differs
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  bool fallback = false;  // the directory has no template; ChatML is used for its tokens are there

  // Fills in the tokens of `input` that are not given, and renders.
  Result<Rendered> Render(RenderInput input) const;
};

// Reads chat_template.jinja or the templates in tokenizer_config.json. Without one: ChatML where
// the tokenizer has <|im_start|> and <|im_end|>. `file`, where it is not empty, is the template
// instead. kNotFound: neither. kInvalid: a file is wrong.
Result<ModelTemplate> ReadModelTemplate(const std::string& dir, const std::string& file = {});

// Token ids in which what came from the conversation opens no turn.
std::vector<TokenId> EncodeRendered(const Tokenizer& tokenizer, const Rendered& rendered);

}  // namespace tidemill
