// Keys of [learner]: who gets credit for a reward, and the learner's processes.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindCreditAndRanks(RunConfig& config, Binder& binder);

}  // namespace tidemill
