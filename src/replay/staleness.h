// How old the tokens of a trajectory are, and which are too old for a loss. It is decided here and
// nowhere else: the learner leaves out what is marked.
#pragma once

#include <cstdint>
#include <optional>

#include "core/policy_versions.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "replay/replay_config.h"

namespace tidemill {

struct TokenAges {
  uint64_t max_lag = 0;  // over all tokens of the model
  uint64_t min_lag = 0;
  uint32_t tokens = 0;
  uint32_t too_old = 0;  // tokens over the bound
};

TokenAges MeasureAges(const v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                      int64_t now_ms, const StalenessConfig& bound);

// The policy that drew its turns; nothing: it has none. kInvalid: a policy that the run has not, or
// turns of two.
Result<std::optional<PolicyId>> PolicyOf(const v1::Trajectory& trajectory,
                                         const PolicyNames& names);
// kInvalid: some token is of a version that the policy never published.
Status CheckVersions(const v1::Trajectory& trajectory, PolicyId policy,
                     const PolicyVersions& versions);

// Marks the runs of tokens that are over the bound, and only those, for the learner to leave out.
// Returns how many tokens.
uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessConfig& bound);

}  // namespace tidemill
