// Rows of environments that others wrote: each becomes a task that keeps the row as it is, for the
// environment alone to read (src/environments).
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tasks/import/import_rows.h"

namespace tidemill {
namespace {

using RowJson = nlohmann::json;

constexpr size_t kIdBytes = 200;
constexpr size_t kPromptBytes = 2000;  // for people; the environment says it to the model

// The text of messages, or of what stands in their place.
std::string TextOfMessages(const RowJson& messages) {
  if (messages.is_string()) return messages.get<std::string>();
  std::string text;
  if (!messages.is_array()) return text;
  for (const RowJson& message : messages) {
    if (!message.is_object()) continue;
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    text += (text.empty() ? "" : "\n\n") + content->get<std::string>();
  }
  return text;
}

std::string TextField(const RowJson& row, const char* name) {
  const auto it = row.find(name);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Result<ImportedTasks> ImportEnvironmentRows(const std::string& path, const ImportOptions& options,
                                            const std::string& format,
                                            std::string (*prompt)(const RowJson& row)) {
  if (!options.split.empty()) return Invalid(format + ": rows have no splits");
  ImportedTasks out;
  const std::string prefix = options.environment.empty() ? format : options.environment;
  size_t number = 0;
  const auto read = [&](const RowJson& row) -> Status {
    ++number;
    if (!row.is_object()) return Invalid("is no object");
    v1::Task task;
    const std::string own = TextField(row, "id");
    task.set_id(prefix + "-" + (own.empty() ? std::to_string(number) : Beginning(own, kIdBytes)));
    const std::string asked = prompt(row);
    task.set_prompt(asked.empty() ? "(the environment asks)" : Beginning(asked, kPromptBytes));
    task.mutable_limits();
    task.add_tags(format);
    task.mutable_environment()->set_environment(options.environment);
    task.mutable_environment()->set_row_json(
        row.dump(-1, ' ', false, RowJson::error_handler_t::replace));
    v1::ScorerWeight& weight = *task.add_weights();
    weight.set_scorer("environment");
    weight.set_weight(1);
    out.Add(task.id(), task, "");
    return Ok();
  };
  TM_RETURN_IF_ERROR(ForEachLine(path, read));
  return out;
}

std::string NemoGymPrompt(const RowJson& row) {
  const auto asked = row.find("responses_create_params");
  if (asked == row.end() || !asked->is_object() || !asked->contains("input")) return "";
  return TextOfMessages((*asked)["input"]);
}

std::string VerifiersPrompt(const RowJson& row) {
  const auto prompt = row.find("prompt");
  return prompt == row.end() ? "" : TextOfMessages(*prompt);
}

}  // namespace

Result<ImportedTasks> ImportNemoGym(const std::string& path, const ImportOptions& options) {
  return ImportEnvironmentRows(path, options, "nemo-gym", NemoGymPrompt);
}

Result<ImportedTasks> ImportVerifiers(const std::string& path, const ImportOptions& options) {
  return ImportEnvironmentRows(path, options, "verifiers", VerifiersPrompt);
}

}  // namespace tidemill
