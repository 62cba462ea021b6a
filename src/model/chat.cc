#include "model/chat.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kNoThinking = "<think>\n\n</think>\n\n";

std::string_view RoleName(Role role, ChatStyle style) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return style == ChatStyle::kLlama3 ? "ipython" : "user";
  }
  return "user";
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string_view DropLeadingNewlines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

// What an assistant said when it had finished thinking.
std::string_view WithoutThinking(std::string_view content) {
  const size_t close = content.rfind(kThinkClose);
  if (close == std::string_view::npos) return content;
  return DropLeadingNewlines(content.substr(close + kThinkClose.size()));
}

// The text that tells a model its tools, in the style of Hermes and Qwen.
std::string ToolsText(std::span<const std::string> tools) {
  std::string text =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const std::string& tool : tools) text.append("\n").append(tool);
  text.append(
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
      "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}\n</tool_call>");
  return text;
}

// The content of an assistant's message with its calls behind it.
std::string AssistantText(std::string_view content, const std::vector<ToolCall>& calls) {
  std::string text(content);
  for (const ToolCall& call : calls) {
    if (!text.empty()) text.append("\n");
    text.append("<tool_call>\n{\"name\": \"").append(call.name).append("\", \"arguments\": ");
    text.append(call.arguments).append("}\n</tool_call>");
  }
  return text;
}

// JSON with a space behind commas and colons, as templates print it.
std::string Spaced(const std::string& compact) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < compact.size(); ++i) {
    out += compact[i];
    if (in_string && compact[i] == '\\') {
      out += compact[++i];  // whatever it is, it does not end the string
    } else if (compact[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (compact[i] == ',' || compact[i] == ':')) {
      out += ' ';
    }
  }
  return out;
}

// The system message a ChatML template gives a conversation that has none, as it is written there:
// '<|im_start|>system\nYou are ..<|im_end|>'.
std::string DefaultSystem(std::string_view chat_template) {
  constexpr std::string_view kOpen = "<|im_start|>system\\n";
  for (size_t at = chat_template.find(kOpen); at != std::string_view::npos;
       at = chat_template.find(kOpen, at + 1)) {
    const std::string_view rest = chat_template.substr(at + kOpen.size());
    const std::string_view text = rest.substr(0, rest.find("<|im_end|>"));
    if (text.size() < rest.size() && !text.empty() &&
        text.find_first_of("'\"{}\\") == std::string_view::npos) {
      return std::string(text);
    }
  }
  return "";
}

struct Recognised {
  ChatOptions options;
  bool known = false;
};

Recognised Recognise(std::string_view chat_template) {
  Recognised out;
  const auto has = [&](std::string_view part) {
    return chat_template.find(part) != std::string_view::npos;
  };
  if (has("<|start_header_id|>") && has("<|eot_id|>")) {
    out.known = true;
    out.options.style = ChatStyle::kLlama3;
    out.options.think = ThinkHistory::kKeep;
  } else if (has("<|im_start|>") && has("<|im_end|>")) {
    out.known = true;
    out.options.think = has(kThinkClose) ? ThinkHistory::kDropBeforeLastUser : ThinkHistory::kKeep;
    out.options.default_system = DefaultSystem(chat_template);
  }
  return out;
}

}  // namespace

// Collects special tokens and text. Text that stands together is encoded together, as the reference
// does with the whole conversation, so that tokens may span the template's words and what was said.
class ChatFormat::Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void Special(TokenId id) {
    Flush();
    ids_.push_back(id);
  }
  void Text(std::string_view text) { text_.append(text); }
  std::vector<TokenId> Take() {
    Flush();
    return std::move(ids_);
  }

 private:
  void Flush() {
    if (text_.empty()) return;
    tokenizer_.EncodeTo(text_, SpecialTokens::kAsText, ids_);
    text_.clear();
  }
  const Tokenizer& tokenizer_;
  std::string text_;
  std::vector<TokenId> ids_;
};

Result<std::string> ToolJson(std::string_view name, std::string_view description,
                             std::string_view parameters) {
  using Json = nlohmann::ordered_json;
  try {
    const Json function = {{"name", name},
                           {"description", description},
                           {"parameters", Json::parse(parameters.begin(), parameters.end())}};
    return Spaced(Json{{"type", "function"}, {"function", function}}.dump());
  } catch (const nlohmann::json::exception& error) {
    return Invalid("tool \"" + std::string(name) + "\": " + error.what());
  }
}

ChatFormat::ChatFormat(Tokenizer tokenizer, ChatOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {}

Result<ChatFormat> ChatFormat::Create(const Tokenizer& tokenizer, ChatOptions options) {
  ChatFormat format(tokenizer, std::move(options));
  const bool llama = format.options_.style == ChatStyle::kLlama3;
  const auto need = [&](const char* content, TokenId& id) -> Status {
    const std::optional<TokenId> found = tokenizer.AddedTokenId(content);
    if (!found) {
      return Invalid(std::string("the tokenizer has no token ") + content + ", which " +
                     (llama ? "Llama 3" : "ChatML") + " conversations require");
    }
    id = *found;
    return Ok();
  };
  if (llama) {
    TM_RETURN_IF_ERROR(need("<|start_header_id|>", format.turn_start_));
    TM_RETURN_IF_ERROR(need("<|end_header_id|>", format.header_end_));
    TM_RETURN_IF_ERROR(need("<|eot_id|>", format.turn_end_));
    format.text_begin_ = tokenizer.AddedTokenId("<|begin_of_text|>").value_or(-1);
  } else {
    TM_RETURN_IF_ERROR(need("<|im_start|>", format.turn_start_));
    TM_RETURN_IF_ERROR(need("<|im_end|>", format.turn_end_));
  }
  return format;
}

Result<ChatFormat> ChatFormat::Choose(const Tokenizer& tokenizer, const TokenizerConfig& config,
                                      std::string* warning) {
  if (warning != nullptr) warning->clear();
  Recognised recognised = Recognise(config.chat_template);
  if (recognised.known) {
    Result<ChatFormat> format = Create(tokenizer, recognised.options);
    if (format.ok()) return format;
    return format.status().WithContext("chat_template");
  }
  const bool chatml =
      tokenizer.AddedTokenId("<|im_start|>") && tokenizer.AddedTokenId("<|im_end|>");
  const bool llama =
      tokenizer.AddedTokenId("<|start_header_id|>") && tokenizer.AddedTokenId("<|eot_id|>");
  if (!chatml && !llama) {
    return Invalid(
        "the tokenizer has neither ChatML's <|im_start|> and <|im_end|> nor Llama 3's "
        "<|start_header_id|> and <|eot_id|>: conversations cannot be written");
  }
  ChatOptions options;
  options.style = chatml ? ChatStyle::kChatMl : ChatStyle::kLlama3;
  if (!chatml) options.think = ThinkHistory::kKeep;
  if (warning != nullptr && !config.chat_template.empty()) {
    *warning = std::string("the chat_template is neither ChatML nor Llama 3; ") +
               (chatml ? "ChatML" : "Llama 3") +
               " is used instead, because the tokenizer has its tokens";
  }
  return Create(tokenizer, std::move(options));
}

void ChatFormat::System(std::string_view content, bool given, std::span<const std::string> tools,
                        Writer& out) const {
  if (!given) content = options_.default_system;
  if (content.empty() && tools.empty() && !given) return;
  std::string text(content);
  if (!tools.empty()) {
    if (!text.empty()) text.append("\n\n");
    text.append(ToolsText(tools));
  }
  Turn(Role::kSystem, text, out);
}

void ChatFormat::Open(Role role, Writer& out) const {
  out.Special(turn_start_);
  out.Text(RoleName(role, options_.style));
  if (options_.style == ChatStyle::kLlama3) {
    out.Special(header_end_);
    out.Text("\n\n");
  } else {
    out.Text("\n");
  }
}

void ChatFormat::Close(Writer& out) const {
  out.Special(turn_end_);
  if (options_.style == ChatStyle::kChatMl) out.Text("\n");
}

void ChatFormat::Turn(Role role, std::string_view text, Writer& out) const {
  Open(role, out);
  out.Text(options_.style == ChatStyle::kLlama3 ? Trim(text) : text);
  Close(out);
}

void ChatFormat::Body(std::span<const Message> messages, bool open_assistant, Writer& out) const {
  size_t last_user = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == Role::kUser) last_user = i;
  }
  const bool drop = options_.think == ThinkHistory::kDropBeforeLastUser;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    if (message.role == Role::kAssistant) {
      const std::string_view content =
          drop && i < last_user ? WithoutThinking(message.content) : message.content;
      Turn(message.role, AssistantText(content, message.tool_calls), out);
    } else if (message.role != Role::kTool || options_.style == ChatStyle::kLlama3) {
      Turn(message.role, message.content, out);
    } else {
      // ChatML: results that come together share one turn of the user's.
      std::string text;
      for (; i < messages.size() && messages[i].role == Role::kTool; ++i) {
        if (!text.empty()) text.append("\n");
        text.append("<tool_response>\n").append(messages[i].content).append("\n</tool_response>");
      }
      --i;
      Turn(Role::kTool, text, out);
    }
  }
  if (!open_assistant) return;
  Open(Role::kAssistant, out);
  if (options_.suppress_thinking) out.Text(kNoThinking);
}

std::vector<TokenId> ChatFormat::Render(std::span<const Message> messages,
                                        bool add_generation_prompt,
                                        std::span<const std::string> tools) const {
  Writer out(tokenizer_);
  if (text_begin_ >= 0) out.Special(text_begin_);
  const bool given = !messages.empty() && messages.front().role == Role::kSystem;
  System(given ? messages.front().content : std::string_view(), given, tools, out);
  Body(given ? messages.subspan(1) : messages, add_generation_prompt, out);
  return out.Take();
}

std::vector<TokenId> ChatFormat::RenderContinuation(std::span<const TokenId> generated,
                                                    std::span<const Message> messages) const {
  Writer out(tokenizer_);
  const bool ended = !generated.empty() && generated.back() == turn_end_;
  if (!ended) out.Special(turn_end_);
  if (options_.style == ChatStyle::kChatMl) out.Text("\n");
  Body(messages, true, out);
  return out.Take();
}

}  // namespace tidemill
