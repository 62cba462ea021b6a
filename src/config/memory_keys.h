// The keys of [memory]: cases of earlier episodes in the prompts of later ones.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindMemory(RunConfig& config, Binder& binder);

// What the keys must have in common; the message names the key and its place.
Status CheckMemory(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
