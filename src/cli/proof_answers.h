// The answers of a run's episodes, for `tidemill proof audit`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "store/run_directory.h"
#include "testbeds/proof_audit.h"

namespace tidemill {

// Distinct ones, with the tasks they belong to.
struct RunAnswers {
  std::vector<v1::Task> tasks;  // what the answers point into
  std::vector<PolicyAnswer> answers;
};

// Of submitted training episodes whose task has a specification and tests that call one function.
// kNotFound: there is no such run. `tasks_file` empty: the file that the run's config names.
Result<RunAnswers> ReadRunAnswers(const std::string& runs_folder, const std::string& run,
                                  const std::string& tasks_file);

// The file with the tasks a run trained on, as its config names it.
Result<std::string> TaskFileOf(const RunDirectory& directory);

}  // namespace tidemill
