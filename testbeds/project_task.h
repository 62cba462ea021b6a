// Problems of the family "project" as tasks of the runtime, and the model that can learn them.
#pragma once

#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "testbeds/project.h"

namespace tidemill {

// `id` must be unique in the set. The helpers stand in the harness, which no agent sees. The tag
// "scope:NAME" names the project: cases of one are never shown to another's tasks.
v1::Task ProjectTask(const ProjectProblem& problem, const std::string& id,
                     const std::string& scope);
// "project-S-0", "project-S-1", ..; scopes "scope:project-S-P".
std::vector<v1::Task> ProjectTasks(const std::vector<ProjectProblem>& problems,
                                   const ProjectOptions& options);

// Lexemes of several characters: <|end|>, <|fail|>, then words of prompts and answers.
std::vector<std::string> ProjectLexemes();

}  // namespace tidemill
