// "environment": what an environment of others paid for the episode (src/environments).
#pragma once

#include "reward/scorer.h"

namespace tidemill {

Result<std::unique_ptr<Scorer>> NewEnvironmentScorer(const RewardConfig& reward);

}  // namespace tidemill
