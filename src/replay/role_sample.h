// What one role's turns of an episode are to a learner: an episode of their own.
//
//   ReplayMember, role -> RoleSample -> v1::Sample with the role's turns alone
#pragma once

#include <optional>
#include <string>

#include "proto/tidemill.pb.h"
#include "replay/replay_group.h"

namespace tidemill {

// Whether the episode has a turn of the role.
bool HasRole(const v1::Trajectory& trajectory, const std::string& role);
// The reward of the role: its own where the verdict has one, else the episode's.
double RewardOf(const v1::Verdict& verdict, const std::string& role);

// The turns of the role, each behind what the role was shown, with their rewards. A member without
// a role ("") is whole. Nothing: it has no turn of the role. The member has a verdict.
std::optional<v1::Sample> RoleSample(const ReplayMember& member, const std::string& role);

}  // namespace tidemill
