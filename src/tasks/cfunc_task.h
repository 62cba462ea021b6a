// Problems of the family "cfunc" as tasks of the runtime: built by tcc, one process for all tests.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tasks/cfunc.h"

namespace tidemill {

// `id` must be unique in the set. The task's examples are those the prompt does not show, then
// those it does, each named as the model reads it, so that the first failure brings news where
// there is any.
v1::Task CfuncTask(const CfuncProblem& problem, const std::string& id);

// Whether these are tests of the family: each case's input is two ints, and what is expected is
// what `int f(int a, int b)` of the one source file returns for them. Whoever wrote the task.
bool TestsCallF(const v1::Grading& grading);

// "cfunc-train-S-0", "cfunc-train-S-1", ..
std::vector<v1::Task> CfuncTasks(const std::vector<CfuncProblem>& problems,
                                 const CfuncOptions& options);

// JSONL of {"prompt": .., "completion": ..}.
Status WriteDemonstrations(const std::string& path,
                           const std::vector<CfuncDemonstration>& demonstrations);

}  // namespace tidemill
