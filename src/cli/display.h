// What a person sees while a run goes on: a block that redraws itself on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "run/run_driver.h"
#include "run/run_journal.h"

namespace tidemill {

class Display final : public RunDisplay {
 public:
  // `steps`: how many the run will take. Nothing is shown on `out` null.
  Display(std::FILE* out, uint64_t steps);
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
  uint64_t steps_;
  std::deque<double> pass_rates_;  // of batches
  std::string last_eval_;
  double reward_ = 0, lag_ = 0, loss_ = 0, entropy_ = 0;
  RunSnapshot before_;  // for rates
  double generated_rate_ = 0, trained_rate_ = 0, episode_rate_ = 0;
  int lines_drawn_ = 0;
  double next_line_at_ = 0;
};

}  // namespace tidemill
