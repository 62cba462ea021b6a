// The keys of [learner] that divide credit among turns and work among ranks. Of run_config.cc
// alone.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindCreditAndRanks(RunConfig& c, Binder& b);

}  // namespace tidemill
