// The keys of [live]: learning from the sessions that the gateway serves.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindLiveLearning(RunConfig& config, Binder& binder);

// What the keys must have in common; the message names the key and its place.
Status CheckLiveLearning(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
