// What the keys of [engine] and [learner] that choose a backend must have in common with the rest.
#pragma once

#include "config/config.h"
#include "run/run_config.h"

namespace tidemill {

// A part of CheckRunConfig.
Status CheckBackends(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
