// The keys of [agent]. Of run_config.cc alone.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindAgent(RunConfig& c, Binder& b);

}  // namespace tidemill
