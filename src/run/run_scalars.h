// A run's journal as curves over the learner's steps, for TensorBoard: step/..., run/..., and one
// curve for each kind of evaluation, eval/..., eval_greedy/..., eval_turns-2/... In a run of
// several policies each has its own, coder/step/..., coder/eval/..., over the steps of the run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "run/run_journal.h"

namespace tidemill {

// Where a point of an evaluation belongs: "before" at step 0, "during-step-4" at step 4, "after" at
// `steps`, the steps taken when it was complete; "before-greedy" on the curve "eval_greedy". Those
// of a policy beside the default one have its name in front, "coder:after".
struct EvalCurve {
  std::string curve;
  int64_t step = 0;
  std::string policy{};
};
EvalCurve EvalCurveOf(const std::string& eval_name, int64_t steps);

struct ScalarPoint {
  int64_t step = 0;
  std::map<std::string, double> scalars;  // empty: nothing to plot
};

// Belongs to one thread.
class RunScalars {
 public:
  // The totals that stand beside a step are those of the second before it.
  ScalarPoint Take(const JournalEntry& entry);

 private:
  Numbers last_tick_;
};

}  // namespace tidemill
