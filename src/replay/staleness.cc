#include "replay/staleness.h"

#include <algorithm>
#include <string>

namespace tidemill {
namespace {

bool TooOld(const v1::Turn& turn, uint64_t lag, int64_t now_ms, const StalenessConfig& bound) {
  const double minutes = static_cast<double>(now_ms - turn.finished_ms()) / 60'000.0;
  return lag > bound.hard_max_steps || (bound.max_minutes > 0 && minutes > bound.max_minutes);
}

}  // namespace

TokenAges MeasureAges(const v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                      int64_t now_ms, const StalenessConfig& bound) {
  TokenAges ages;
  ages.min_lag = UINT64_MAX;
  for (const v1::Turn& turn : trajectory.turns()) {
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

Result<std::optional<PolicyId>> PolicyOf(const v1::Trajectory& trajectory,
                                         const PolicyNames& names) {
  std::optional<PolicyId> policy;
  for (const v1::Turn& turn : trajectory.turns()) {
    TM_ASSIGN_OR_RETURN(const PolicyId of_turn, names.Find(turn.policy()));
    if (policy && *policy != of_turn) {
      return Invalid("turns of the policies " + names.Shown(*policy) + " and " +
                     names.Shown(of_turn) + " in one trajectory");
    }
    policy = of_turn;
  }
  return policy;
}

Status CheckVersions(const v1::Trajectory& trajectory, PolicyId policy,
                     const PolicyVersions& versions) {
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::VersionRun& run : turn.versions()) {
      TM_RETURN_IF_ERROR(versions.Check(policy, run.version()));
    }
  }
  return Ok();
}

}  // namespace tidemill
