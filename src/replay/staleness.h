// How old the tokens of a trajectory are, and which are too old for a loss. It is decided here and
// nowhere else: the learner leaves out what is marked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

// Of the tokens that `policy` drew, by its name as in messages.
TokenAges MeasureAges(const v1::Trajectory& trajectory, std::string_view policy,
                      const VersionSteps& versions, uint64_t step, int64_t now_ms,
                      const StalenessConfig& bound);

// The policies that drew its turns, each once. kInvalid: one that the run has not.
Result<std::vector<PolicyId>> PoliciesOfTurns(const v1::Trajectory& trajectory,
                                              const PolicyNames& names);
// kInvalid: a policy that the run has not, or a token of a version that the policy of its turn
// never published.
Status CheckVersions(const v1::Trajectory& trajectory, const PolicyNames& names,
                     const PolicyVersions& versions);
// kInvalid: a turn of a role that the team has not, that another policy drew than the role's, or
// that begins a role in another's conversation. Without a team (no roles): turns of two policies,
// or of a role.
Status CheckRoles(const v1::Trajectory& trajectory, const PolicyNames& names,
                  const std::map<std::string, PolicyId>& roles);

// Marks the runs of tokens that are over the bound, and only those, for the learner to leave out.
// Returns how many tokens.
uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessConfig& bound);

}  // namespace tidemill
