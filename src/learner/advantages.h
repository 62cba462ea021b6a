// From the rewards of a batch to one advantage for each episode. docs/objectives.md has the
// formulas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"

namespace tidemill {

enum class AdvantageKind : uint8_t {
  kGroupNormalized,  // (R - mean) / (deviation + 1e-6) within the group
  kGroupCentered,    // R - mean within the group
  kLeaveOneOut,      // R - mean of the group's other members
  kBatchWhitened,    // (R - mean) / (deviation + 1e-6) over the batch
  kVtrace,           // for each token, from a value head (learner/vtrace.h)
};

// An episode is compared with the others of its group alone.
inline bool ComparesWithinGroup(AdvantageKind kind) {
  return kind != AdvantageKind::kBatchWhitened && kind != AdvantageKind::kVtrace;
}

// One advantage for each reward; rewards[i] belongs to groups[i]. Deviations are sample deviations
// (divisor k-1). A set of one has nothing to be compared with and gets 0. kVtrace needs more than
// rewards and must not be asked for here.
std::vector<double> ComputeAdvantages(AdvantageKind kind, std::span<const double> rewards,
                                      std::span<const uint64_t> groups);

// The same for one set whose members are all compared with each other.
std::vector<double> CompareAmong(AdvantageKind kind, std::span<const double> rewards);

}  // namespace tidemill
