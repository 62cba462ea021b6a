// `tidemill tasks import`, and `tidemill tasks generate --family pyfunc`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "tasks/import/task_import.h"

namespace tidemill {

// Where the tasks' own solutions go as demonstrations, token for token as the answer protocol of a
// model has them.
struct SolutionWords {
  std::string path;           // empty: nowhere
  std::string model;          // its tokenizer and chat format
  std::string system_prompt;  // as model.system_prompt
};

// kInvalid: no model was named.
Status WriteSolutions(const SolutionWords& words, const std::vector<ImportedTask>& tasks);

void AddTasksImport(CLI::App& tasks, Exit& exit);

}  // namespace tidemill
