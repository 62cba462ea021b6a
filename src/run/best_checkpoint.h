// Marks the checkpoint of a policy with the highest pass rate: checkpoints/best is a link to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "run/run_journal.h"

namespace tidemill {

// Belongs to one thread.
class BestCheckpoint {
 public:
  // `policy`: as entries of the journal name it in a run of several; empty: there is one.
  explicit BestCheckpoint(std::string folder, std::string policy = "")
      : folder_(std::move(folder)), policy_(std::move(policy)) {}

  // An evaluation ("eval") of the main kind (not greedy, not with other turns). Where there is a
  // checkpoint of the step it measured and none before was better, the link goes there. The pass
  // rate it was chosen by is kept beside it, so that a resumed run goes on comparing. A checkpoint
  // may be written more slowly than it is measured: an evaluation that has none waits for it, which
  // is an entry as well ("checkpoint").
  void Take(const JournalEntry& entry);

 private:
  void Measured(int64_t step, double pass_rate);

  const std::string folder_;
  const std::string policy_;
  std::map<int64_t, double> waiting_;  // pass rates by step, the newest few
};

}  // namespace tidemill
