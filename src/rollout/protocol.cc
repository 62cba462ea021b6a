#include "rollout/protocol.h"

#include <algorithm>

#include "tools/tool_table.h"

namespace tidemill {

namespace {

constexpr int kFilesListed = 200;
constexpr size_t kSmallFileBytes = 8192;

std::string Listing(const v1::Task& task) {
  std::string text = "\n\nFiles of the workspace:\n";
  for (int i = 0; i < std::min(task.files_size(), kFilesListed); ++i) {
    text += task.files(i).path() + "\n";
  }
  if (task.files_size() > kFilesListed) {
    text += "and " + std::to_string(task.files_size() - kFilesListed) + " more\n";
  }
  return text;
}

}  // namespace

std::string PromptText(const v1::Task& task) {
  if (task.files().empty() || task.prompt_files() == v1::Task::PROMPT_FILES_NONE) {
    return task.prompt();
  }
  const v1::File& first = task.files(0);
  const bool small =
      task.files_size() == 1 && first.has_content() && first.content().size() <= kSmallFileBytes;
  const bool all = task.prompt_files() == v1::Task::PROMPT_FILES_ALL ||
                   (task.prompt_files() == v1::Task::PROMPT_FILES_UNSPECIFIED && small);
  if (!all) return task.prompt() + Listing(task);
  std::string text = task.prompt();
  for (const v1::File& file : task.files()) {
    // A content that travels by hash is too large to show.
    text += "\n\nFile " + file.path() + ":\n" +
            (file.has_content() ? file.content() : "(too large to show)");
  }
  return text;
}

Result<size_t> FitSkills(const AgentProtocol& protocol, const v1::Task& task, int64_t wall_ms,
                         size_t max_tokens, v1::CaseSet& cases) {
  if (cases.skills().empty()) return 0;
  v1::CaseSet alone;
  TM_ASSIGN_OR_RETURN(const std::vector<TokenId> plain, protocol.Prompt({task, alone, wall_ms}));
  *alone.mutable_skills() = cases.skills();
  for (;;) {
    TM_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, protocol.Prompt({task, alone, wall_ms}));
    const size_t added = prompt.size() - std::min(prompt.size(), plain.size());
    if (added <= max_tokens) {
      *cases.mutable_skills() = alone.skills();
      return added;
    }
    alone.mutable_skills()->RemoveLast();
  }
}

Result<std::vector<TokenId>> PromptWithin(const AgentProtocol& protocol, const v1::Task& task,
                                          int64_t wall_ms, size_t max_tokens, v1::CaseSet& cases) {
  v1::CaseSet skills;
  *skills.mutable_skills() = cases.skills();
  TM_ASSIGN_OR_RETURN(const std::vector<TokenId> plain, protocol.Prompt({task, skills, wall_ms}));
  for (;;) {
    TM_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, protocol.Prompt({task, cases, wall_ms}));
    const bool none_left = cases.cases().empty() && cases.tool_notes().empty();
    if (prompt.size() <= plain.size() + max_tokens || none_left) return prompt;
    // Notes on tools are worth more than every case but the best.
    const int last = cases.tool_notes().empty() ? 0 : 1;
    if (cases.cases_size() > last) {
      cases.mutable_cases()->RemoveLast();
    } else {
      cases.clear_tool_notes();
    }
  }
}

std::string CasesText(const v1::CaseSet& cases) {
  if (cases.cases().empty() && cases.tool_notes().empty() && cases.skills().empty()) return "";
  std::string tasks;
  for (int i = cases.cases_size() - 1; i >= 0; --i) {
    const v1::ShownCase& shown = cases.cases(i);
    tasks += "Task:\n" + shown.prompt() + "\nAnswer, which " +
             (shown.solved() ? "passed" : "failed") + ":\n" + shown.answer() + "\n";
    if (!shown.note().empty()) tasks += "Tools:\n" + shown.note() + "\n";
    tasks += "\n";
  }
  std::string text;
  if (!cases.skills().empty()) {
    text += "Skills, notes from earlier work on this project:\n\n";
    for (const v1::ShownSkill& skill : cases.skills()) text += skill.text() + "\n";
  }
  if (!cases.tool_notes().empty()) {
    text += "What tools said in several earlier tasks:\n" + cases.tool_notes() + "\n\n";
  }
  if (!tasks.empty()) {
    text += "Earlier tasks, what was answered, and whether it passed the tests:\n\n" + tasks;
  }
  return text + "The task now:\n";
}

const std::vector<ToolDescription>& BuiltInTools() {
  static const std::vector<ToolDescription> kDescriptions = [] {
    std::vector<ToolDescription> tools;
    for (const ToolRow& row : BuiltInToolRows()) {
      if (row.description.empty()) continue;
      tools.push_back({std::string(row.name), std::string(row.description),
                       std::string(row.parameters_json), row.by_default});
    }
    return tools;
  }();
  return kDescriptions;
}

Result<std::unique_ptr<AgentProtocol>> NewProtocol(std::string_view name,
                                                   const Tokenizer& tokenizer,
                                                   const std::string& words,
                                                   const ProtocolOptions& options) {
  if (options.constrain_calls && name != "chat" && name != "hermes") {
    return Invalid("rollout.constrain = \"tools\" needs model.protocol = \"chat\", not \"" +
                   std::string(name) + "\", which has no tool calls");
  }
  if (name == "compact") return NewCompactProtocol(tokenizer);
  if (name != "chat" && name != "hermes" && name != "answer") {
    return Invalid("unknown agent protocol \"" + std::string(name) +
                   "\"; known are answer, chat, compact");
  }
  TM_ASSIGN_OR_RETURN(ModelChat chat, ReadModelChat(tokenizer, words,
                                                    {.model_dir = options.model_dir,
                                                     .tool_format = options.tool_format}));
  if (!chat.chat) return NotFound(chat.no_chat_reason);
  if (chat.end_ids.empty()) {
    return Invalid(words +
                   ": neither the chat template nor generation_config.json names a token that "
                   "ends an answer");
  }
  LogTools(chat);
  if (name == "answer") return NewAnswerProtocol(std::move(chat), options);
  return NewChatProtocol(std::move(chat), options);
}

}  // namespace tidemill
