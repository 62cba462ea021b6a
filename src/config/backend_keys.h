// Keys of [engine] and [learner] that say whose engine generates and whose ranks train.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindServers(RunConfig& config, Binder& binder);      // of [engine]
void BindRankBackend(RunConfig& config, Binder& binder);  // of [learner]
Status CheckBackends(const RunConfig& config, const Binder& binder);  // a part of CheckRunConfig

}  // namespace tidemill
