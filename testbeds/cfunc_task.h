// Problems of the family "cfunc" as tasks of the runtime: built by tcc, one process for all tests.
#pragma once

#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "testbeds/cfunc.h"

namespace tidemill {

// `id` must be unique in the set. The task's examples are those the prompt does not show, then
// those it does, each named as the model reads it, so that the first failure brings news where
// there is any.
v1::Task CfuncTask(const CfuncProblem& problem, const std::string& id);

// "cfunc-train-S-0", "cfunc-train-S-1", ..
std::vector<v1::Task> CfuncTasks(const std::vector<CfuncProblem>& problems,
                                 const CfuncOptions& options);

}  // namespace tidemill
