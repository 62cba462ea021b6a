// Judges a Python function by its values: each case is an expression, its value is compared outside
// the box with what was expected, in a canonical form in which equal values have equal texts.
#pragma once

#include "tools/grader.h"
#include "tools/python/python_nursery.h"

namespace tidemill {

// Fills in outcome, compiled, tests, failures, diagnostics and the measurements; nothing may be
// wrong with `grading` (CheckGrading). True: it timed out because the machine was busy; it should
// be tried once more.
bool GradePython(const v1::Grading& grading, const GradeOptions& options, const Workspace& files,
                 PythonNursery& nursery, v1::ToolResult* result);

}  // namespace tidemill
