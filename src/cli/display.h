// A run in progress as a person sees it: a block that redraws itself on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "run/policies.h"
#include "run/run_driver.h"
#include "run/run_journal.h"
#include "run/run_progress.h"

namespace tidemill {

inline RunGoal GoalOf(const RunConfig& config) {
  return {.steps = RunStepsOf(config), .minutes = config.run.minutes};
}

class Display final : public RunDisplay {
 public:
  // `goal`: when the run ends. Nothing is shown on `out` null.
  Display(std::FILE* out, const RunGoal& goal);
  ~Display() override;

  void Show(const JournalEntry& entry) override;
  void Show(const RunSnapshot& snapshot) override;
  // Leaves the last picture standing.
  void Finish();

 private:
  void DrawBlock(const RunSnapshot& snapshot);
  void DrawLine(const RunSnapshot& snapshot);
  void Clear();

  std::FILE* out_;
  bool terminal_;
  RunProgress progress_;
  std::deque<double> pass_rates_;  // of batches
  double reward_ = 0, lag_ = 0, loss_ = 0, entropy_ = 0;
  int lines_drawn_ = 0;
  double next_draw_at_ = 0;
};

}  // namespace tidemill
