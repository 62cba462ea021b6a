#include "replay/staleness.h"

#include <algorithm>
#include <set>
#include <string>

namespace tidemill {
namespace {

bool TooOld(const v1::Turn& turn, uint64_t lag, int64_t now_ms, const StalenessConfig& bound) {
  const double minutes = static_cast<double>(now_ms - turn.finished_ms()) / 60'000.0;
  return lag > bound.hard_max_steps || (bound.max_minutes > 0 && minutes > bound.max_minutes);
}

}  // namespace

TokenAges MeasureAges(const v1::Trajectory& trajectory, std::string_view policy,
                      const VersionSteps& versions, uint64_t step, int64_t now_ms,
                      const StalenessConfig& bound) {
  TokenAges ages;
  ages.min_lag = UINT64_MAX;
  for (const v1::Turn& turn : trajectory.turns()) {
    if (turn.policy() != policy) continue;
    for (const v1::VersionRun& run : turn.versions()) {
      const uint64_t lag = versions.Lag(run.version(), step);
      ages.max_lag = std::max(ages.max_lag, lag);
      ages.min_lag = std::min(ages.min_lag, lag);
      ages.tokens += run.tokens();
      if (TooOld(turn, lag, now_ms, bound)) ages.too_old += run.tokens();
    }
  }
  if (ages.tokens == 0) ages.min_lag = 0;
  return ages;
}

uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessConfig& bound) {
  uint32_t masked = 0;
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    for (v1::VersionRun& run : *turn.mutable_versions()) {
      run.set_masked(TooOld(turn, versions.Lag(run.version(), step), now_ms, bound));
      if (run.masked()) masked += run.tokens();
    }
  }
  return masked;
}

Result<std::vector<PolicyId>> PoliciesOfTurns(const v1::Trajectory& trajectory,
                                              const PolicyNames& names) {
  std::vector<PolicyId> policies;
  for (const v1::Turn& turn : trajectory.turns()) {
    TM_ASSIGN_OR_RETURN(const PolicyId of_turn, names.Find(turn.policy()));
    if (std::find(policies.begin(), policies.end(), of_turn) == policies.end()) {
      policies.push_back(of_turn);
    }
  }
  return policies;
}

Status CheckVersions(const v1::Trajectory& trajectory, const PolicyNames& names,
                     const PolicyVersions& versions) {
  for (const v1::Turn& turn : trajectory.turns()) {
    TM_ASSIGN_OR_RETURN(const PolicyId policy, names.Find(turn.policy()));
    for (const v1::VersionRun& run : turn.versions()) {
      TM_RETURN_IF_ERROR(versions.Check(policy, run.version()));
    }
  }
  return Ok();
}

Status CheckRoles(const v1::Trajectory& trajectory, const PolicyNames& names,
                  const std::map<std::string, PolicyId>& roles) {
  if (roles.empty()) {
    TM_ASSIGN_OR_RETURN(const std::vector<PolicyId> policies, PoliciesOfTurns(trajectory, names));
    if (policies.size() < 2) return Ok();
    return Invalid("turns of the policies " + names.Shown(policies[0]) + " and " +
                   names.Shown(policies[1]) + " in one trajectory");
  }
  std::set<std::string> begun;
  for (const v1::Turn& turn : trajectory.turns()) {
    const bool goes_on = !begun.empty() && turn.prompt_ids().empty();
    if (begun.insert(turn.role()).second && goes_on) {
      return Invalid("the first turn of the role \"" + turn.role() + "\" goes on from another's");
    }
    TM_ASSIGN_OR_RETURN(const PolicyId drew, names.Find(turn.policy()));
    const auto role = roles.find(turn.role());
    if (role == roles.end()) return Invalid("the team has no role \"" + turn.role() + "\"");
    if (role->second == drew) continue;
    return Invalid("a turn of the role \"" + turn.role() + "\" drawn by the policy " +
                   names.Shown(drew) + ", not " + names.Shown(role->second));
  }
  return Ok();
}

}  // namespace tidemill
