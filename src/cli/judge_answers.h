// A run's own executions as examples for a learned verifier: (task, answer, passed or
// not).
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct JudgeAnswersOptions {
  std::string runs = "runs";
  std::string run;
  std::string tasks;  // task file; empty: the one of the run's config
  std::string out;
  bool heldout = false;          // of the tasks kept back for checking, else of all others
  bool demonstrations = false;   // {"prompt", "completion"} to train with, else cases to check with
  bool proved = false;           // answers that were proved or refuted as well
  std::string form = "compact";  // template of the demonstrations, or "bare"
  uint64_t limit = 20'000;
};

struct JudgeAnswersWritten {
  uint64_t right = 0, wrong = 0;
};

// Writes each distinct answer of the run's training episodes whose hidden tests were executed (or
// that was proved or refuted), as a case of the judge's task "outcome". Which tasks are kept back
// follows from their ids: one in five.
Result<JudgeAnswersWritten> WriteJudgeAnswers(const JudgeAnswersOptions& options);

}  // namespace tidemill
