// The scorer "proof" (docs/verifiers.md).
#pragma once

#include "reward/scorer.h"

namespace tidemill {

Result<std::unique_ptr<Scorer>> NewProofScorer(const RewardConfig& reward);

}  // namespace tidemill
