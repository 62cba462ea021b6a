#include "replay/staleness.h"

#include <algorithm>

namespace tidemill {
namespace {

bool TooOldByTime(const v1::Turn& turn, int64_t now_ms, const StalenessBound& bound) {
  const double minutes = static_cast<double>(now_ms - turn.finished_ms()) / 60'000.0;
  return bound.max_minutes > 0 && minutes > bound.max_minutes;
}

}  // namespace

TokenAges MeasureAges(const v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                      int64_t now_ms, const StalenessBound& bound) {
  TokenAges ages;
  ages.min_lag = UINT64_MAX;
  for (const v1::Turn& turn : trajectory.turns()) {
    const bool by_age = TooOldByTime(turn, now_ms, bound);
    for (const v1::VersionRun& run : turn.versions()) {
      const uint64_t lag = versions.Lag(run.version(), step);
      ages.max_lag = std::max(ages.max_lag, lag);
      ages.min_lag = std::min(ages.min_lag, lag);
      ages.tokens += run.tokens();
      if (by_age || lag > bound.hard_max_steps) ages.too_old += run.tokens();
    }
  }
  if (ages.tokens == 0) ages.min_lag = 0;
  return ages;
}

uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessBound& bound) {
  uint32_t masked = 0;
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    const bool by_age = TooOldByTime(turn, now_ms, bound);
    for (v1::VersionRun& run : *turn.mutable_versions()) {
      if (!by_age && versions.Lag(run.version(), step) <= bound.hard_max_steps) continue;
      run.set_masked(true);
      masked += run.tokens();
    }
  }
  return masked;
}

}  // namespace tidemill
