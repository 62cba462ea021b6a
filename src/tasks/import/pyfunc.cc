// Rows of {split, task_id, text, shown, hidden, steps}: simple Python functions in plain words.
#include <nlohmann/json.hpp>

#include "tasks/import/import_rows.h"

namespace tidemill {

Result<ImportedTasks> ImportPyfunc(const std::string& path, const ImportOptions& options) {
  if (!options.split.empty() && options.split != "train" && options.split != "test") {
    return Invalid("pyfunc has the splits train and test, not \"" + options.split + "\"");
  }
  ImportedTasks out;
  const auto read = [&](ObjectReader& row, const nlohmann::json&) -> Status {
    PythonTaskParts parts;
    std::string split, solution;
    uint32_t steps = 0;
    for (const char* name : {"split", "task_id", "text", "shown", "hidden"}) {
      row.Require(name, "a field of every row");
    }
    row.String("split", split);
    row.String("task_id", parts.id);
    row.String("text", parts.text);
    row.Strings("shown", [&](std::string test) { parts.assertions.push_back(std::move(test)); });
    row.Strings("hidden", [&](std::string test) { parts.assertions.push_back(std::move(test)); });
    row.Unsigned("steps", 1000, steps);
    row.String("solution", solution);
    if (!options.split.empty() && split != options.split) return Ok();
    parts.tag = "pyfunc";
    if (!parts.assertions.empty()) {
      parts.text += "\nYour code should pass this test:\n" + parts.assertions.front();
    }
    auto task = PythonTask(parts, options);
    if (task.ok()) task->set_difficulty(steps);
    out.Add(parts.id, std::move(task), std::move(solution));
    return Ok();
  };
  TM_RETURN_IF_ERROR(ForEachRow(path, read));
  return out;
}

}  // namespace tidemill
