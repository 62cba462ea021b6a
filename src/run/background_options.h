// From the config to how an episode's tools run while it goes on.
#pragma once

#include <map>
#include <string>

#include "rollout/episode_limits.h"
#include "rollout/protocol.h"
#include "run/run_config.h"

namespace tidemill {

// Sets what of `limits` the keys of [background] decide, and rollout's that go with them.
void SetBackground(const RunConfig& config, EpisodeLimits& limits);

// Describes the tools as those that may run in the background, and adds the tools that look after
// such calls, where there are any. kInvalid names the tool that cannot.
Status OfferBackground(const RunConfig& config, std::vector<ToolDescription>& tools);

}  // namespace tidemill
