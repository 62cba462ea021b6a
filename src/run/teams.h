// The team of a run: from [team] and [role.NAME] to who works on an episode and who draws whose
// turns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "config/config.h"
#include "core/policy_names.h"
#include "rollout/team.h"
#include "run/run_config.h"

namespace tidemill {

// Nothing: an episode has one agent. The config was checked.
std::optional<TeamPlan> TeamPlanFrom(const RunConfig& config);
// Who draws the turns of each role; empty: there is no team.
std::map<std::string, PolicyId> TeamRoles(const RunConfig& config);
// Steps that may use an episode, of all policies.
uint32_t UsesOfAll(const RunConfig& config);

// What [team] cannot be, or be together with. Messages name the key and its place.
Status CheckTeam(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
