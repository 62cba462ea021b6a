#include "conversation/written_turn.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {
namespace {

// How a call must look, for a model whose call could not be read.
std::string_view CallShape(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kHermesJson:
      return "<tool_call>\n{\"name\": .., \"arguments\": {..}}\n</tool_call>";
    case ToolFormat::kQwenCoderXml:
      return "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n"
             "</tool_call>";
    case ToolFormat::kLlama3Json:
      return "{\"name\": .., \"parameters\": {..}}";
    case ToolFormat::kLlamaPythonic:
      return "[NAME(KEY=VALUE)]";
  }
  return "";
}

// The tags of these formats are never meant as text.
bool HasTag(ToolFormat format, std::string_view text) {
  const bool hermes = format == ToolFormat::kHermesJson,
             coder = format == ToolFormat::kQwenCoderXml;
  return ((hermes || coder) && text.find("<tool_call>") != std::string_view::npos) ||
         (coder && text.find("<function=") != std::string_view::npos);
}

}  // namespace

bool IsAnswerText(const Tokenizer& tokenizer, const OutputFormat& format, TokenId id) {
  if (!tokenizer.IsSpecial(id)) return true;
  const std::string_view token = tokenizer.TokenBytes(id);
  switch (format.tools) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kHermesJson:
    case ToolFormat::kQwenCoderXml:
      if (token == "<tool_call>" || token == "</tool_call>") return true;
      break;
    case ToolFormat::kLlama3Json:
    case ToolFormat::kLlamaPythonic:
      if (token == "<|python_tag|>") return true;
      break;
  }
  return format.thinking && (token == "<think>" || token == "</think>");
}

OutputParserOptions TurnParserOptions(const ModelChat& chat, bool thinking_open,
                                      const nlohmann::ordered_json& tools) {
  OutputParserOptions options{
      .format = chat.format, .thinking_open = thinking_open, .tools = tools};
  if (!tools.is_array() || tools.empty()) options.format.tools = ToolFormat::kNone;
  return options;
}

WrittenTurn ReadTurn(const ModelChat& chat, std::span<const TokenId> ids, bool thinking_open,
                     const nlohmann::ordered_json& tools) {
  OutputParserOptions options = TurnParserOptions(chat, thinking_open, tools);
  const ToolFormat format = options.format.tools;
  if (!ids.empty() &&
      std::find(chat.end_ids.begin(), chat.end_ids.end(), ids.back()) != chat.end_ids.end()) {
    ids = ids.first(ids.size() - 1);
  }
  std::vector<TokenId> text;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(text),
               [&](TokenId id) { return IsAnswerText(chat.tokenizer, options.format, id); });
  OutputParser parser(std::move(options));
  std::vector<OutputEvent> events;
  parser.Push(chat.tokenizer.Decode(text), events);
  parser.Finish(events);

  WrittenTurn turn;
  size_t ended = 0;
  for (OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
        turn.content += event.text;
        break;
      case OutputEvent::Kind::kReasoning:
        turn.reasoning += event.text;
        break;
      case OutputEvent::Kind::kCallBegin:
        turn.calls.push_back({std::move(event.text), ""});
        break;
      case OutputEvent::Kind::kCallArguments:
        turn.calls.back().arguments += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        ++ended;
        break;
    }
  }
  if (ended < turn.calls.size() || HasTag(format, turn.content)) {
    turn.malformed = fmt::format("a tool call could not be read; write\n{}", CallShape(format));
    turn.calls.clear();
  }
  return turn;
}

std::string WrittenCallId(size_t number) {
  return fmt::format("call{:05}", number);
}

nlohmann::ordered_json MessageOf(const WrittenTurn& turn, size_t first_call) {
  using ChatJson = nlohmann::ordered_json;
  ChatJson message = {{"role", "assistant"}, {"content", turn.content}};
  if (!turn.reasoning.empty()) message["reasoning_content"] = turn.reasoning;
  for (const WrittenCall& call : turn.calls) {
    ChatJson arguments = ChatJson::parse(call.arguments, nullptr, false);
    if (!arguments.is_object()) arguments = call.arguments;
    message["tool_calls"].push_back(
        {{"id", WrittenCallId(first_call++)},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
  }
  return message;
}

}  // namespace tidemill
