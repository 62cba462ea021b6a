// A whole turn of the model, read by the parser that reads answers as they come.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "conversation/model_chat.h"

namespace tidemill {

struct WrittenCall {
  std::string name;
  std::string arguments;  // a JSON object
};

struct WrittenTurn {
  std::string content;
  std::string reasoning;
  std::vector<WrittenCall> calls;  // none, where one is malformed
  std::string malformed;  // what is wrong with a call, in words the model is told; empty: nothing
};

// Special tokens are not text, unless they are marks of the format.
bool IsAnswerText(const Tokenizer& tokenizer, const OutputFormat& format, TokenId id);

// How a turn behind such a prompt is parsed. `tools`: as in the prompt; null: no calls are read.
OutputParserOptions TurnParserOptions(const ModelChat& chat, bool thinking_open,
                                      const nlohmann::ordered_json& tools);

// `ids` with the token that ended them, if one did. `tools`: as in the prompt; null: no calls are
// read.
WrittenTurn ReadTurn(const ModelChat& chat, std::span<const TokenId> ids, bool thinking_open,
                     const nlohmann::ordered_json& tools);

// The turn as a message of the conversation: role, content, and where there are any
// reasoning_content and tool_calls. `first_call` numbers the calls' ids.
nlohmann::ordered_json MessageOf(const WrittenTurn& turn, size_t first_call);
// The id of a call in those messages.
std::string WrittenCallId(size_t number);

}  // namespace tidemill
