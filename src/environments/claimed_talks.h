// What an environment that asks the model itself says of the answers, held against what the
// gateway recorded.
#pragma once

#include <vector>

#include "agents/episode_recorder.h"
#include "core/status.h"
#include "environments/environment_driver.h"

namespace tidemill {

// Branches get their players as roles where there are several, and those of players that are not
// trained go. kUnavailable says what differs: other answers were drawn than the environment scored.
Status HoldAgainst(const std::vector<ClaimedTalk>& talks, const EpisodeSession& recorded,
                   std::vector<v1::Trajectory>& branches);

}  // namespace tidemill
