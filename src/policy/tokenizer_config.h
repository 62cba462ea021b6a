// tokenizer_config.json: which tokens begin, end and pad a text, and the chat template.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::string chat_template;  // Jinja source; empty: none given
  std::string tool_template;  // the one named "tool_use", for conversations with tools; or empty
};

// `name` is what errors call the input. kInvalid names the field.
Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json, std::string_view name);
// DIR/tokenizer_config.json, DIR/special_tokens_map.json for tokens the former does not name, and
// DIR/chat_template.jinja, which goes before the templates in the former. Files that are not there
// leave their fields empty.
Result<TokenizerConfig> ReadTokenizerConfig(const std::string& dir);

}  // namespace tidemill
