// Warm Python interpreters for answers that are functions: each waits in a box of its own, and
// every answer runs in a fork of one, so that judging costs a fork and not a start of Python.
//
//   code, inputs -> idle interpreter -> fork, confined -> an answer for each input -> Report
//
// The interpreter itself never runs an answer. The fork has no descriptor but two pipes to its
// parent, a system call filter that leaves computing and reading files (answer_filter.h), and
// limits on CPU time, wall time and memory; it ends with the exam. What was expected never enters
// the box.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/box/box_pool.h"
#include "tools/box/limits.h"

namespace tidemill {

// One answer and what it is asked: expressions, evaluated one after the other where it was loaded.
struct PythonExam {
  std::string code;
  std::vector<std::string> inputs;  // one line each
  BoxLimits limits;                 // of all of it together; wall, cpu and memory count
};

struct PythonAnswer {
  std::string value;  // the canonical text of the value; empty: there was none
  std::string shown;  // the value as Python prints it, cut; or the error
};

struct PythonReport {
  bool loaded = false;                // the answer's top level ran to its end
  std::string load_error;             // "SyntaxError: .."
  int syntax_line = 0;                // above 0: it did not even compile
  std::vector<PythonAnswer> answers;  // fewer than inputs: it ended before
  v1::Outcome outcome = v1::OUTCOME_OK;
  int exit_code = 0;
  double cpu_ms = 0;
  double wall_ms = 0;
  uint64_t peak_memory_kb = 0;
  bool starved = false;  // it ran out of wall time because the machine was busy
};

// Thread-safe. Starts interpreters as they are needed, one for each call under way at most.
class PythonNursery {
 public:
  // `pool` must outlive it.
  explicit PythonNursery(BoxPool& pool);
  ~PythonNursery();

  // Blocks for as long as the exam takes. kUnavailable: no interpreter could be had, twice; ours.
  // kInvalid: an input of several lines, or limits that make no sense.
  Result<PythonReport> Hold(const PythonExam& exam);

 private:
  class Interpreter;
  Interpreter* TakeIdle();
  void GiveBack(Interpreter* interpreter);

  BoxPool& pool_;
  Result<std::string> filter_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Interpreter>> all_ TM_GUARDED_BY(mutex_);
  std::vector<Interpreter*> idle_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
