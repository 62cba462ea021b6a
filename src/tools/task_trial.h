// Tries tasks before anybody trains on them: the reference solution must pass, the untouched
// workspace must not, and both must come out the same twice.
//
//   task -> files with and without the solution -> gradings in boxes -> TaskTrial
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "store/blobs.h"
#include "tools/box/box_host.h"
#include "tools/tool_options.h"

namespace tidemill {

struct TaskTrial {
  std::string task;
  bool has_tests = false;      // false: its scorers run nothing here
  bool has_solution = false;   // none is no mistake
  uint32_t tests = 0;          // of the grading
  uint32_t solved_passed = 0;  // by the solution
  uint32_t untouched_passed = 0;
  double grading_ms = 0;              // of the slowest grading
  uint64_t files_read = 0;            // of the agent's, that enter the box
  uint64_t files_left_out = 0;        // of the agent's, that do not
  uint64_t files_of_task = 0;         // the graders' own
  std::vector<std::string> problems;  // empty: the task is sound
  std::string output;                 // of the grading that went wrong first

  bool sound() const { return problems.empty(); }
};

struct TrialOptions {
  ToolOptions tools;
  BoxHostOptions boxes;
  std::string roots;  // folder of unpacked root file systems
  size_t jobs = 1;    // tasks tried at once
};

// In the order of the tasks, which are prepared with their solutions. `done` is called after each,
// on any thread, one at a time. kUnavailable: no box can run here.
Result<std::vector<TaskTrial>> TryTasks(const std::vector<v1::Task>& tasks,
                                        const TrialOptions& options, BlobStore& blobs,
                                        const Clock& clock,
                                        const std::function<void(const TaskTrial&)>& done);

}  // namespace tidemill
