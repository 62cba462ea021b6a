// From what the database remembers of a run to what its loops begin with when it goes on.
#pragma once

#include <vector>

#include "replay/replay_loop.h"
#include "rollout/dispatcher.h"
#include "store/run_db.h"

namespace tidemill {

// Groups that are outstanding, accepted or to be attempted again, and where the order of tasks
// stands.
void AddResumed(const ResumeState& resumed, DispatcherOptions& dispatch);

// The trajectories, moved out of it.
std::vector<StoredSample> TakeSamples(ResumeState& resumed);

}  // namespace tidemill
