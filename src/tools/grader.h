// Judges a program by its answers. Only inputs ever enter the box, one at a time; what was expected
// stays outside, where the comparison happens. So nothing a program can print, redefine, overwrite
// or read earns it anything but a right answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/tidemill.pb.h"
#include "tools/box/box.h"
#include "tools/workspace.h"

namespace tidemill {

struct GradeOptions {
  BoxLimits limits;     // for the build, and for the run of all cases together
  bool reveal = false;  // failures show input and expected output: the tests are no secret
  size_t failures_max = 5;
};

// The files that enter the box: the declared ones of the agent's, then ours over them.
Result<Workspace> GradingFiles(const v1::Grading& grading, const Workspace& agents,
                               BlobStore* blobs);

// kInvalid: no cases, no command to run, an input of more than one line for MODE_LINES.
Status CheckGrading(const v1::Grading& grading);

// Builds and runs in a box that holds the files. Fills in outcome, compiled, tests, failures,
// diagnostics and the measurements. True: it timed out because the machine was busy; it should be
// tried once more.
bool GradeInBox(const v1::Grading& grading, const GradeOptions& options, Box& box,
                v1::ToolResult* result);

// The same for answers that are known already, one for each case.
void GradeAnswers(const v1::Grading& grading, const GradeOptions& options,
                  const std::vector<std::string>& answers, v1::ToolResult* result);

// Whether an answer is the expected one.
bool SameOutput(std::string_view actual, std::string_view expected, v1::Grading::Compare compare);

}  // namespace tidemill
