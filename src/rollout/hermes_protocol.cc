// The tool format Qwen and Hermes models are trained on:
//   assistant: .. <tool_call>\n{"name": "compile", "arguments": {..}}\n</tool_call> .. <|im_end|>
//   user:      <tool_response>\n..\n</tool_response>
// A turn without a call is the answer: its last fenced block, or the workspace as it is.
#include <nlohmann/json.hpp>
#include <set>

#include "model/chat.h"
#include "model/tokenizer.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr std::string_view kSystem =
    "You are a careful programmer. Solve the task in the workspace you are given. Use the tools to "
    "write "
    "files, compile and test; when the work is done, answer without a tool call.";

// Without what the model thought: it is not part of a call or an answer.
std::string WithoutThoughts(std::string text) {
  for (;;) {
    const size_t begin = text.find("<think>");
    if (begin == std::string::npos) return text;
    const size_t end = text.find("</think>", begin);
    text.erase(begin, end == std::string::npos ? std::string::npos : end + 8 - begin);
  }
}

std::string LastFencedBlock(const std::string& text) {
  const size_t close = text.rfind("\n```");
  if (close == std::string::npos || close == 0) return "";
  const size_t open = text.rfind("```", close - 1);
  if (open == std::string::npos) return "";
  const size_t body = text.find('\n', open);
  if (body == std::string::npos || body >= close + 1) return "";
  return text.substr(body + 1, close - body);
}

Result<RequestedCall> ParseCall(std::string_view body,
                                const std::set<std::string, std::less<>>& tools) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) return Invalid("the tool call is not valid JSON");
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) {
    return Invalid("a tool call needs a \"name\"");
  }
  const std::string name = json["name"];
  if (tools.count(name) == 0) return Invalid("there is no tool \"" + name + "\"");
  const Json arguments = json.value("arguments", Json::object());
  if (!arguments.is_object()) return Invalid("\"arguments\" must be an object");
  return RequestedCall{name, arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

class HermesProtocol final : public AgentProtocol {
 public:
  HermesProtocol(Tokenizer tokenizer, ChatFormat chat, std::vector<std::string> tool_lines,
                 std::vector<std::string> tool_names, std::set<std::string> on_request,
                 std::string system)
      : tokenizer_(std::move(tokenizer)),
        chat_(std::move(chat)),
        tool_lines_(std::move(tool_lines)),
        tool_names_(std::move(tool_names)),
        on_request_(std::move(on_request)),
        system_(std::move(system)),
        stop_ids_{chat_.turn_end()} {}

  std::string_view name() const override { return "hermes"; }

  std::vector<TokenId> Prompt(const v1::Task& task, const v1::CaseSet& cases) const override {
    std::vector<std::string> lines;
    for (size_t i = 0; i < tool_names_.size(); ++i) {
      if (Allowed(task, tool_names_[i])) lines.push_back(tool_lines_[i]);
    }
    std::string prompt = CasesText(cases) + PromptText(task);
    if (!task.answer_file().empty()) {
      prompt += "\n\nGive your answer as one fenced block; it becomes " + task.answer_file() + ".";
    }
    const std::vector<Message> messages = {{Role::kSystem, system_}, {Role::kUser, prompt}};
    return chat_.Render(messages, true, lines);
  }

  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }

  ParsedTurn Parse(const v1::Task& task, std::span<const TokenId> ids) const override {
    ParsedTurn turn;
    if (!ids.empty() && ids.back() == chat_.turn_end()) ids = ids.first(ids.size() - 1);
    const std::string text = WithoutThoughts(tokenizer_.Decode(ids));
    std::set<std::string, std::less<>> allowed;
    for (const std::string& tool : tool_names_) {
      if (Allowed(task, tool)) allowed.insert(tool);
    }
    size_t at = 0;
    while ((at = text.find(kOpen, at)) != std::string::npos) {
      const size_t begin = at + kOpen.size(), end = text.find(kClose, begin);
      if (end == std::string::npos) {
        turn.malformed = "<tool_call> without </tool_call>";
        break;
      }
      Result<RequestedCall> call =
          ParseCall(std::string_view(text).substr(begin, end - begin), allowed);
      if (!call.ok()) {
        turn.malformed = call.status().message();
        break;
      }
      turn.calls.push_back(std::move(*call));
      at = end + kClose.size();
    }
    if (!turn.malformed.empty())
      turn.calls.clear();
    else if (turn.calls.empty())
      turn.answer = task.answer_file().empty() ? "" : LastFencedBlock(text);
    return turn;
  }

  bool ChecksAnswers() const override { return false; }

  std::vector<TokenId> Observe(const v1::Task&, const ParsedTurn& turn,
                               const std::vector<v1::ToolResult>& results,
                               size_t max_tokens) const override {
    std::vector<Message> messages;
    if (!turn.malformed.empty()) {
      messages.push_back({Role::kTool, "error: " + turn.malformed});
    }
    for (const v1::ToolResult& result : results) {
      messages.push_back({Role::kTool, Cut(result.text(), max_tokens / results.size())});
    }
    // The turn ended with its end token: only what goes behind it is rendered.
    const TokenId end = chat_.turn_end();
    return chat_.RenderContinuation({&end, 1}, messages);
  }

  std::string Text(std::span<const TokenId> ids) const override { return tokenizer_.Decode(ids); }

 private:
  bool Allowed(const v1::Task& task, const std::string& tool) const {
    if (task.tools_size() == 0) return !task.no_tools() && on_request_.count(tool) == 0;
    for (const std::string& allowed : task.tools()) {
      if (allowed == tool) return true;
    }
    return false;
  }

  // Head and tail of the text, within a number of tokens: errors stand first, summaries last.
  std::string Cut(const std::string& text, size_t max_tokens) const {
    const std::vector<TokenId> ids = tokenizer_.Encode(text, SpecialTokens::kAsText);
    if (ids.size() <= max_tokens) return text;
    const std::span<const TokenId> all(ids);
    const size_t head = max_tokens * 2 / 3, tail = max_tokens - head;
    return tokenizer_.Decode(all.first(head)) + "\n[.. " + std::to_string(ids.size() - max_tokens) +
           " tokens cut ..]\n" + tokenizer_.Decode(all.last(tail));
  }

  Tokenizer tokenizer_;
  ChatFormat chat_;
  std::vector<std::string> tool_lines_;
  std::vector<std::string> tool_names_;
  std::set<std::string> on_request_;  // tools for tasks that name them
  std::string system_;
  std::vector<TokenId> stop_ids_;
};

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewHermesProtocol(const Tokenizer& tokenizer,
                                                         const std::string& model_dir,
                                                         const ProtocolOptions& options,
                                                         std::string* warning) {
  TM_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(model_dir));
  TM_ASSIGN_OR_RETURN(ChatFormat chat, ChatFormat::Choose(tokenizer, config, warning));
  std::vector<std::string> lines, names;
  std::set<std::string> on_request;
  for (const ToolDescription& tool : options.tools) {
    Result<std::string> line = ToolJson(tool.name, tool.description, tool.parameters_json);
    if (!line.ok()) return line.status().WithContext("the tool \"" + tool.name + "\"");
    lines.push_back(std::move(*line));
    names.push_back(tool.name);
    if (!tool.by_default) on_request.insert(tool.name);
  }
  return std::unique_ptr<AgentProtocol>(new HermesProtocol(
      tokenizer, std::move(chat), std::move(lines), std::move(names), std::move(on_request),
      options.system_prompt.empty() ? std::string(kSystem) : options.system_prompt));
}

}  // namespace tidemill
