// Keys of [engine] and [learner] that say whose engine generates and whose ranks train.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindBackends(RunConfig& config, Binder& binder);
Status CheckBackends(const RunConfig& config, const Binder& binder);  // a part of CheckRunConfig

}  // namespace tidemill
