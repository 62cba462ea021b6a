// How old the tokens of a trajectory are, and which are too old for a loss.
#pragma once

#include <cstdint>
#include <map>

#include "proto/tidemill.pb.h"

namespace tidemill {

struct StalenessBound {
  uint64_t hard_max_steps =
      8;  // most steps between the version that drew a token and the step that uses it
  double max_minutes = 0;  // most minutes since it was drawn; 0: no bound
  bool mask = false;       // leave single tokens out; false: drop the whole trajectory
};

// Which step published which version. A version that is not known yet is newer than all that are.
class VersionSteps {
 public:
  void Published(uint64_t version, uint64_t step) {
    steps_[version] = step;
    while (steps_.size() > kRemembered) steps_.erase(steps_.begin());
  }
  // Whether the version was published, or is too old to be remembered.
  bool Known(uint64_t version) const {
    return steps_.count(version) != 0 || (!steps_.empty() && version < steps_.begin()->first);
  }
  // Steps between `version` and the step `now` that would use its tokens.
  uint64_t Lag(uint64_t version, uint64_t now) const {
    auto after = steps_.upper_bound(version);
    if (after == steps_.end()) {
      if (steps_.empty() || steps_.rbegin()->first < version) return 0;
    }
    if (after == steps_.begin())
      return steps_.empty() ? 0 : UINT64_MAX;  // older than all remembered
    const uint64_t step = std::prev(after)->second;
    return now > step ? now - step : 0;
  }

 private:
  static constexpr size_t kRemembered = 4096;
  std::map<uint64_t, uint64_t> steps_;
};

struct TokenAges {
  uint64_t max_lag = 0;  // over all tokens of the model
  uint64_t min_lag = 0;
  uint32_t tokens = 0;
  uint32_t too_old = 0;  // tokens over the bound
};

TokenAges MeasureAges(const v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                      int64_t now_ms, const StalenessBound& bound);

// Marks the runs of tokens that are over the bound, for the learner to leave out. Returns how many
// tokens.
uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessBound& bound);

}  // namespace tidemill
