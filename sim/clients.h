// Clients of the gateway over its real memory (src/live): they ask, send again, leave, edit what
// was said, go on from two places at once, while the server crashes between any two events and its
// store loses what was not synced.
//
//   client -> LiveRecorder::Prepare -> (a drawn answer) -> Finished -> SimStore -> client
#pragma once

#include "sim/simulation.h"

namespace tidemill::sim {

// Bugs that are planted in what clients meet.
inline bool IsOfClients(Bug bug) {
  return bug == Bug::kTrainedThroughBranches || bug == Bug::kRetryIsANewTurn ||
         bug == Bug::kDeletedIsTrained || bug == Bug::kPinnedIsSwapped ||
         bug == Bug::kCaseOfAnotherTenant;
}

// Adds to the report; `ok` and `failure` say which promise was broken first.
void RunClients(const SimOptions& options, SimReport& report);

}  // namespace tidemill::sim
