#include "gateway/read_conversation.h"

#include <algorithm>
#include <utility>

#include "gateway/request_parts.h"

namespace tidemill {
namespace {

struct MarkNames {
  const char* open;
  const char* header_end;  // nullptr: the header is the first line
  const char* close;
};
constexpr MarkNames kMarkNames[] = {{"<|im_start|>", nullptr, "<|im_end|>"},
                                    {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
                                    {"<start_of_turn>", nullptr, "<end_of_turn>"}};

constexpr std::string_view kResultOpen = "<tool_response>\n";
constexpr std::string_view kResultClose = "\n</tool_response>";

bool OnlySpace(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string RoleOf(std::string_view header) {
  if (header == "model") return "assistant";
  if (header == "ipython") return "tool";
  return std::string(header);
}

// The results of tools that templates without a role for them put into a user's message; empty:
// the text is something else.
std::vector<std::string> ToolResults(std::string_view text) {
  std::vector<std::string> results;
  while (text.starts_with(kResultOpen)) {
    const size_t end = text.find(kResultClose);
    if (end == std::string_view::npos) return {};
    const size_t begin = std::min(kResultOpen.size(), end);
    results.emplace_back(text.substr(begin, end - begin));
    text.remove_prefix(end + kResultClose.size());
    if (text.starts_with('\n')) text.remove_prefix(1);
  }
  return text.empty() ? results : std::vector<std::string>();
}

}  // namespace

ConversationReader::ConversationReader(Tokenizer tokenizer, std::string_view source)
    : tokenizer_(std::move(tokenizer)), format_(DetectOutputFormat(source)) {
  for (const MarkNames& names : kMarkNames) {
    const auto open = tokenizer_.AddedTokenId(names.open);
    const auto close = tokenizer_.AddedTokenId(names.close);
    if (!open || !close) continue;
    if (!source.empty() && source.find(names.open) == std::string_view::npos) continue;
    marks_ = Marks{*open, std::nullopt, *close};
    if (names.header_end != nullptr) marks_->header_end = tokenizer_.AddedTokenId(names.header_end);
    break;
  }
  // Without a template ChatML is what runs use. Calls are as Hermes writes them where a template
  // has none (conversation/tools_as_text.h).
  if (source.empty() && marks_) format_.thinking = true;
  if (format_.tools == ToolFormat::kNone && marks_) format_.tools = ToolFormat::kHermesJson;
}

std::vector<WireJson> ConversationReader::Read(std::span<const ConversationPart> parts) const {
  std::vector<WireJson> messages;
  std::optional<Message> open;
  for (const ConversationPart& part : parts) Take(part, open, messages);
  Finish(open, messages);
  return messages;
}

void ConversationReader::Take(const ConversationPart& part, std::optional<Message>& open,
                              std::vector<WireJson>& messages) const {
  const std::string bare_role = part.by_model ? "assistant" : "user";
  for (size_t i = 0; i < part.ids.size(); ++i) {
    const TokenId id = part.ids[i];
    const bool may_mark = marks_ && !part.by_model;
    const bool closes =
        marks_ && id == marks_->close && (!part.by_model || i + 1 == part.ids.size());
    if (may_mark && id == marks_->open) {
      Finish(open, messages);
      open.emplace().framed = true;
    } else if (closes) {
      Finish(open, messages);
    } else if (may_mark && marks_->header_end == id && open && open->framed && !open->role) {
      open->role = RoleOf(tokenizer_.Decode(open->ids));
      open->ids.clear();
    } else {
      if (open && !open->framed && open->role != bare_role) Finish(open, messages);
      if (!open) open.emplace().role = bare_role;
      open->ids.push_back(id);
    }
  }
}

void ConversationReader::Finish(std::optional<Message>& open,
                                std::vector<WireJson>& messages) const {
  if (!open) return;
  const Message message = *std::exchange(open, std::nullopt);
  std::string text = tokenizer_.Decode(message.ids, /*skip_special=*/!message.framed);
  if (!message.framed) {
    // Between two messages, or in front of the first, stands nothing that anybody said.
    if (!marks_ || !OnlySpace(text)) AddText(*message.role, std::move(text), messages);
    return;
  }
  if (message.role) {
    text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
    return AddText(*message.role, std::move(text), messages);
  }
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string role = RoleOf(text.substr(0, line));
  text.erase(0, std::min(line + 1, text.size()));
  AddText(role, std::move(text), messages);
}

void ConversationReader::AddText(const std::string& role, std::string text,
                                 std::vector<WireJson>& messages) const {
  if (role == "assistant") {
    if (!OnlySpace(text)) messages.push_back(Assistant(text));  // opened, and nothing written
    return;
  }
  const std::vector<std::string> results =
      role == "user" ? ToolResults(text) : std::vector<std::string>();
  for (const std::string& result : results) messages.push_back(CanonicalMessage("tool", result));
  if (results.empty()) messages.push_back(CanonicalMessage(role, std::move(text)));
}

// A call that was not finished is text, like all of its turn.
WireJson ConversationReader::Assistant(const std::string& text) const {
  OutputParser parser({.format = format_});
  std::vector<OutputEvent> events;
  parser.Push(text, events);
  parser.Finish(events);
  std::string content, reasoning;
  WireJson calls = WireJson::array();
  size_t finished = 0;
  for (const OutputEvent& event : events) {
    using Kind = OutputEvent::Kind;
    if (event.kind == Kind::kText) content += event.text;
    if (event.kind == Kind::kReasoning) reasoning += event.text;
    if (event.kind == Kind::kCallBegin) {
      calls.push_back({{"type", "function"},
                       {"function", {{"name", event.text}, {"arguments", std::string()}}}});
    }
    if (event.kind == Kind::kCallArguments) {
      auto& arguments = calls.back()["function"]["arguments"].get_ref<std::string&>();
      arguments += event.text;
    }
    if (event.kind == Kind::kCallEnd) ++finished;
  }
  if (finished != calls.size()) return CanonicalMessage("assistant", text);
  return CanonicalAssistant(std::move(content), std::move(reasoning), std::move(calls));
}

}  // namespace tidemill
