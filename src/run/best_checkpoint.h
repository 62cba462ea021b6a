// Marks the checkpoint with the highest pass rate: checkpoints/best is a link to it.
#pragma once

#include <string>

#include "run/run_journal.h"

namespace tidemill {

// Belongs to one thread.
class BestCheckpoint {
 public:
  explicit BestCheckpoint(std::string folder) : folder_(std::move(folder)) {}

  // An evaluation ("eval") of the main kind (not greedy, not with other turns). Where there is a
  // checkpoint of the step it measured and none before was better, the link goes there. The pass
  // rate it was chosen by is kept beside it, so that a resumed run goes on comparing.
  void Take(const JournalEntry& entry);

 private:
  const std::string folder_;
};

}  // namespace tidemill
