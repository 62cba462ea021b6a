// Judges a submission by a command of the task's: pytest, make check, cargo test.
//
//   agent's files, less those only the task provides -> graders' files over them -> fresh box ->
//   build, command -> exit status or report -> again in another box with a canary laid over ->
//   verdict
//
// The agent's code runs with the tests and may end them, patch them or write their report. So what
// passes is run a second time with files under which the command cannot pass. A submission that
// passes then as well has not been tested, and is worth nothing.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "tools/box/box.h"
#include "tools/grader.h"
#include "tools/workspace.h"

namespace tidemill {

// kInvalid: no command.
Status CheckCommandGrading(const v1::Grading& grading);

// The files that enter the box: of the agent's those that `sources` names (all where it names none)
// and that are not the task's own nor the report, then the harness.
Result<Workspace> CommandGradingFiles(const v1::Grading& grading, const Workspace& agents,
                                      BlobStore* blobs);

// A canary is what is laid over the files for a run that must fail.
enum class CanaryKind : uint8_t {
  kAuthors,   // the grading's own
  kFunction,  // a failing test function behind every Python test of the harness
  kCase,      // the same as a unittest.TestCase: runners run the two in different ways
  // The Python tests with other expected values: none of them can pass. A submission whose results
  // equal anything, or that reads what is expected where the tests are, passes them all the same.
  kOtherValues,
};
// Those a grading needs, each in a run of its own: a patch of one way to run tests leaves the other
// alone. None: the grading is trusted.
Result<std::vector<CanaryKind>> CanariesOf(const v1::Grading& grading, BlobStore* blobs);
// Those of the harness.
std::vector<std::string> PythonTestsOf(const v1::Grading& grading);
// The names of failing tests hold `nonce`.
Status LayCanary(CanaryKind kind, const v1::Grading& grading, const std::string& nonce,
                 BlobStore* blobs, Workspace* files);

struct CommandRun {
  const v1::Grading& grading;
  const GradeOptions& options;
  std::string nonce;  // names the report, so that nothing written before the run can be it
  // With kOtherValues: the Python tests to change before anything else runs, and those of their
  // functions that passed without it.
  std::vector<std::string> changed{};
  std::set<std::string> passed_before{};
  std::set<std::string> passed{};  // out: tests of the report
  bool held = false;               // out: the run failed as it must with a canary
};
// Fills in outcome, compiled, tests and failures. True: the machine was too busy for it to count.
bool RunGradingCommand(CommandRun& run, Box& box, v1::ToolResult* result);

}  // namespace tidemill
