// A conversation as token ids. The template's own tokens are special; everything a person, a file
// or a tool said is encoded with special tokens off, so that it cannot open or close a turn.
//
//   messages -> Render -> prompt ids -> (the model writes ids) -> RenderContinuation(tool results)
//   -> ids ..
//
// What the model wrote is never tokenized again: a continuation holds only what goes behind it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/tokenizer.h"
#include "model/tokenizer_config.h"

namespace tidemill {

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::vector<ToolCall> tool_calls = {};  // of an assistant's message, behind its content
};

enum class ChatStyle : uint8_t {
  kChatMl,  // <|im_start|>role\n..<|im_end|>\n (Qwen)
  kLlama3,  // <|start_header_id|>role<|end_header_id|>\n\n..<|eot_id|>
};

// What becomes of <think>..</think> in an assistant's message that is rendered from text.
enum class ThinkHistory : uint8_t {
  kKeep,                // it is text like any other
  kDropBeforeLastUser,  // as Qwen3: dropped from messages before the last user's, kept behind it
};

struct ChatOptions {
  ChatStyle style = ChatStyle::kChatMl;
  ThinkHistory think = ThinkHistory::kDropBeforeLastUser;
  std::string default_system;  // for conversations without a system message; empty: none
  // An empty <think></think> opens the assistant's turn, which keeps a thinking model from
  // thinking.
  bool suppress_thinking = false;
};

// {"type": "function", "function": {..}} on one line, as templates print tools. `parameters` is a
// JSON schema; kInvalid: it is not JSON.
Result<std::string> ToolJson(std::string_view name, std::string_view description,
                             std::string_view parameters);

// Immutable, thread-safe.
class ChatFormat {
 public:
  // Chooses by the chat template, or, without one that is known, by the tokens there are; `warning`
  // (may be null) then says what is used instead. kInvalid: the tokens of neither style are there.
  static Result<ChatFormat> Choose(const Tokenizer& tokenizer, const TokenizerConfig& config,
                                   std::string* warning);
  // A given style. kInvalid names the token that is missing.
  static Result<ChatFormat> Create(const Tokenizer& tokenizer, ChatOptions options);

  // `tools`: one JSON object each (ToolJson), described in the system message.
  // `add_generation_prompt` opens the assistant's turn.
  std::vector<TokenId> Render(std::span<const Message> messages, bool add_generation_prompt,
                              std::span<const std::string> tools = {}) const;

  // What goes behind `generated`, the ids of the assistant's turn just written: its end, if it was
  // cut before one, then `messages` and the opening of the next assistant's turn.
  std::vector<TokenId> RenderContinuation(std::span<const TokenId> generated,
                                          std::span<const Message> messages) const;

  // The token an assistant's turn ends with: <|im_end|> or <|eot_id|>.
  TokenId turn_end() const { return turn_end_; }
  const ChatOptions& options() const { return options_; }

 private:
  class Writer;
  ChatFormat(Tokenizer tokenizer, ChatOptions options);
  void Body(std::span<const Message> messages, bool open_assistant, Writer& out) const;
  void Open(Role role, Writer& out) const;
  void Close(Writer& out) const;
  void Turn(Role role, std::string_view text, Writer& out) const;
  void System(std::string_view content, bool given, std::span<const std::string> tools,
              Writer& out) const;

  Tokenizer tokenizer_;
  ChatOptions options_;
  TokenId turn_start_ = -1;  // <|im_start|> or <|start_header_id|>
  TokenId header_end_ = -1;  // <|end_header_id|>
  TokenId turn_end_ = -1;
  TokenId text_begin_ = -1;  // <|begin_of_text|>; -1: none
};

}  // namespace tidemill
