// Tools, calls and results as plain text, in Hermes' style, for templates that do not show them.
#pragma once

#include <string>
#include <string_view>

#include "conversation/jinja/chat_template.h"

namespace tidemill {

// Pieces of a template in Hermes' and Qwen's style. The first describes `tools`; the second writes
// the content and the calls of `message`, and needs the third, a macro.
extern const std::string_view kToolsText;
extern const std::string_view kAssistantText;
extern const std::string_view kContentMacro;

// The messages that a template takes.
struct MessageRules {
  bool system_role = true;
  bool users_in_a_row = true;
};

// Puts the description into the system message (the first user's, where there are none), calls
// into the content of their message, and results that come together into one user's message;
// what the user says right behind them too, where the template needs that. kInvalid: a call or a
// tool cannot be written.
Status WriteToolsAsText(const MessageRules& rules, RenderInput& input);

}  // namespace tidemill
