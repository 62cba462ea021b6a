// The keys of [[judge]] and [audit]: models that judge, and how they are checked.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindJudges(RunConfig& config, Binder& binder);

// What the keys must have in common; the message names the key and its place.
Status CheckJudges(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
