// The turns of an episode's record: as the engine drew them, or as an agent's program asked for
// them.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "proto/tidemill.pb.h"
#include "rollout/episode_clock.h"

namespace tidemill {

// What the engine drew.
void FillTurn(const TurnOutput& output, v1::Turn& turn);
// Of a program. Each is a branch; the trajectory begins with the first.
void PutBranches(std::vector<v1::Trajectory> branches, v1::Trajectory& trajectory,
                 EpisodeClock& clock);
// Each stands in the newest turn that was over when it was made; without a turn, in the log.
void PutAgentCalls(const std::vector<v1::ToolCall>& calls, v1::Trajectory& trajectory,
                   EpisodeClock& clock);

}  // namespace tidemill
