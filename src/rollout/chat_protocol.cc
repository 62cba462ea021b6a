// The model's own template and tool format, as it is served:
//   assistant: .. <tool_call>\n{"name": "compile", "arguments": {..}}\n</tool_call> .. <|im_end|>
//   tool:      what the tool said
// A turn without a call is the answer: its last fenced block, or the workspace as it is.
#include <algorithm>
#include <map>
#include <set>

#include "conversation/call_constraint.h"
#include "conversation/call_watch.h"
#include "conversation/dialogue.h"
#include "rollout/job_tools.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr std::string_view kSystem =
    "You are a careful programmer. Solve the task in the workspace you are given. Use the tools to "
    "write "
    "files, compile and test; when the work is done, answer without a tool call.";

std::string LastFencedBlock(const std::string& text) {
  const size_t close = text.rfind("\n```");
  if (close == std::string::npos || close == 0) return "";
  const size_t open = text.rfind("```", close - 1);
  if (open == std::string::npos) return "";
  const size_t body = text.find('\n', open);
  if (body == std::string::npos || body >= close + 1) return "";
  return text.substr(body + 1, close - body);
}

struct OfferedTool {
  std::string name;
  ChatJson shown;           // as the template takes it
  bool on_request = false;  // for tasks that name it
  bool background = false;  // its calls may go on in the background
};

// Calls of tools that the task does not have make the whole turn malformed: none of it counts.
class ChatWatch final : public TurnWatch {
 public:
  ChatWatch(CallWatch calls, const std::set<std::string>& tools)
      : calls_(std::move(calls)), tools_(tools) {}

  std::vector<RequestedCall> Push(std::span<const TokenId> ids) override {
    std::vector<RequestedCall> found;
    for (WrittenCall& call : calls_.Push(ids)) {
      malformed_ = malformed_ || tools_.count(call.name) == 0;
      if (!malformed_) found.push_back({std::move(call.name), std::move(call.arguments)});
    }
    return found;
  }
  bool called() const override { return calls_.called(); }

 private:
  CallWatch calls_;
  const std::set<std::string>& tools_;
  bool malformed_ = false;
};

// Text with well-formed calls of the tools in it.
ConstraintPart PartOfTurn(const ModelChat& chat, const ChatJson& tools, bool thinking_open) {
  CallRules rules;
  for (const ChatJson& tool : tools) {
    rules.strict.insert(tool["function"]["name"].get<std::string>());
  }
  return BehindThoughts(chat.format, PartOfCalls(chat.format.tools, tools, rules), thinking_open);
}

class ChatTalk final : public EpisodeTalk {
 public:
  // `compiler`: of turns that are held to their calls; null: they are not.
  ChatTalk(const ModelChat& chat, const v1::Task& task, std::set<std::string> tools,
           RenderInput opening, ConstraintCompiler* compiler)
      : chat_(chat),
        task_(task),
        tools_(std::move(tools)),
        dialogue_(chat, std::move(opening)),
        compiler_(compiler) {}

  Result<std::shared_ptr<const Constraint>> TurnConstraint() override {
    if (compiler_ == nullptr || tools_.empty()) return std::shared_ptr<const Constraint>();
    return compiler_->Compile(
        PartOfTurn(chat_, dialogue_.conversation().tools, dialogue_.ThinkingOpen()), "tools");
  }

  Result<std::vector<TokenId>> Open() const override { return dialogue_.Open(); }

  ParsedTurn Parse(std::span<const TokenId> ids) override {
    WrittenTurn written = dialogue_.Read(ids);
    ParsedTurn turn;
    turn.malformed = std::move(written.malformed);
    turn.text = written.content;
    for (WrittenCall& call : written.calls) {
      if (tools_.count(call.name) == 0 && turn.malformed.empty()) {
        turn.malformed = "there is no tool \"" + call.name + "\"";
      }
      turn.calls.push_back({std::move(call.name), std::move(call.arguments)});
    }
    if (!turn.malformed.empty()) {
      turn.calls.clear();
    } else if (turn.calls.empty()) {
      turn.answer = task_.answer_file().empty() ? "" : LastFencedBlock(written.content);
    }
    return turn;
  }

  Result<NextPrompt> Observe(const ParsedTurn& turn, const TurnReplies& replies,
                             size_t max_tokens) override {
    ChatJson messages = ChatJson::array();
    const auto add = [&](const std::string& text, std::string id, const std::string& tool) {
      ChatJson message = SaidBy("tool", text);
      message["tool_call_id"] = std::move(id);
      if (!tool.empty()) message["name"] = tool;
      messages.push_back(std::move(message));
    };
    if (!turn.malformed.empty()) add("error: " + turn.malformed, dialogue_.CallId(0), "");
    const size_t parts = replies.results.size() + replies.delivered.size();
    for (size_t call = 0; call < replies.results.size(); ++call) {
      const std::string id = dialogue_.CallId(call);
      const std::string& handle = replies.handles.empty() ? "" : replies.handles[call];
      if (!handle.empty()) call_ids_[handle] = id;
      const bool named = call < turn.calls.size();
      add(Cut(replies.results[call].text(), max_tokens / parts), id,
          named ? turn.calls[call].tool : "");
    }
    // Under the id of the call that it answers.
    for (const DeliveredResult& result : replies.delivered) {
      add(Cut(result.handle + ": " + result.text, max_tokens / parts), call_ids_[result.handle],
          result.tool);
    }
    return dialogue_.Say(messages);
  }

  Result<NextPrompt> Hear(const std::string& given) override {
    return dialogue_.Say(ChatJson::array({SaidBy("user", given)}));
  }

  bool Watches() const override { return !tools_.empty(); }
  std::unique_ptr<TurnWatch> Watch() override {
    return std::make_unique<ChatWatch>(
        CallWatch(chat_, dialogue_.ThinkingOpen(), dialogue_.conversation().tools), tools_);
  }

 private:
  // Head and tail of the text, within a number of tokens: errors stand first, summaries last.
  std::string Cut(const std::string& text, size_t max_tokens) const {
    const Tokenizer& tokenizer = chat_.tokenizer;
    const std::vector<TokenId> ids = tokenizer.Encode(text, SpecialTokens::kAsText);
    if (ids.size() <= max_tokens) return text;
    const std::span<const TokenId> all(ids);
    const size_t head = max_tokens * 2 / 3, tail = max_tokens - head;
    return tokenizer.Decode(all.first(head)) + "\n[.. " + std::to_string(ids.size() - max_tokens) +
           " tokens cut ..]\n" + tokenizer.Decode(all.last(tail));
  }

  const ModelChat& chat_;
  const v1::Task& task_;
  const std::set<std::string> tools_;
  Dialogue dialogue_;
  ConstraintCompiler* const compiler_;
  std::map<std::string, std::string> call_ids_;  // by the handle of a background call
};

class ChatProtocol final : public AgentProtocol {
 public:
  ChatProtocol(ModelChat chat, std::vector<OfferedTool> tools, std::string system)
      : chat_(std::move(chat)), tools_(std::move(tools)), system_(std::move(system)) {}

  // Turns are held to their calls from here on. kInvalid: they cannot be.
  Status ConstrainCalls() {
    if (!EnforcesCalls(chat_.format.tools)) {
      return Invalid("rollout.constrain = \"tools\": calls in the format " +
                     std::string(ToolFormatName(chat_.format.tools)) +
                     " cannot be held to their schemas");
    }
    ChatJson shown = ChatJson::array();
    for (const OfferedTool& tool : tools_) shown.push_back(tool.shown);
    auto compiler = std::make_unique<ConstraintCompiler>(
        std::make_shared<const TokenVocabulary>(AnswerVocabulary(chat_)));
    TM_RETURN_IF_ERROR(compiler->Compile(PartOfTurn(chat_, shown, false))
                           .status()
                           .WithContext("rollout.constrain = \"tools\""));
    compiler_ = std::move(compiler);
    return Ok();
  }

  std::string_view name() const override { return "chat"; }
  const std::vector<TokenId>& stop_ids() const override { return chat_.end_ids; }
  bool ChecksAnswers() const override { return false; }

  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const override {
    const v1::Task& task = opening.task;
    std::string prompt = CasesText(opening.cases) + PromptText(task);
    if (!task.answer_file().empty()) {
      prompt += "\n\nGive your answer as one fenced block; it becomes " + task.answer_file() + ".";
    }
    RenderInput input{.messages = OpeningMessages(chat_, system_, prompt),
                      .now = LocalTime(opening.wall_ms / 1000)};
    std::set<std::string> names;
    bool background = false;
    for (const OfferedTool& tool : tools_) {
      // Those that look after background calls are for whoever may have some.
      if (IsJobTool(tool.name) ? !background : !Allowed(task, tool)) continue;
      background = background || tool.background;
      names.insert(tool.name);
      input.tools.push_back(tool.shown);
    }
    return std::make_unique<ChatTalk>(chat_, task, std::move(names), std::move(input),
                                      compiler_.get());
  }

 private:
  static bool Allowed(const v1::Task& task, const OfferedTool& tool) {
    if (task.tools_size() == 0) return !task.no_tools() && !tool.on_request;
    return std::find(task.tools().begin(), task.tools().end(), tool.name) != task.tools().end();
  }

  const ModelChat chat_;
  const std::vector<OfferedTool> tools_;
  const std::string system_;
  std::unique_ptr<ConstraintCompiler> compiler_;  // where calls are held to their schemas
};

}  // namespace

Result<std::unique_ptr<AgentProtocol>> NewChatProtocol(ModelChat chat,
                                                       const ProtocolOptions& options) {
  std::vector<OfferedTool> tools;
  for (const ToolDescription& tool : options.tools) {
    ChatJson parameters = ChatJson::parse(tool.parameters_json, nullptr, false);
    if (!parameters.is_object()) {
      return Invalid("the tool \"" + tool.name + "\": its parameters are no JSON object");
    }
    tools.push_back({tool.name,
                     {{"type", "function"},
                      {"function",
                       {{"name", tool.name},
                        {"description", tool.description},
                        {"parameters", std::move(parameters)}}}},
                     !tool.by_default,
                     tool.background != BackgroundUse::kNever});
  }
  auto protocol = std::make_unique<ChatProtocol>(
      std::move(chat), std::move(tools),
      options.system_prompt.empty() ? std::string(kSystem) : options.system_prompt);
  if (options.constrain_calls) TM_RETURN_IF_ERROR(protocol->ConstrainCalls());
  return std::unique_ptr<AgentProtocol>(std::move(protocol));
}

}  // namespace tidemill
