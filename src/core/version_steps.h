// Which step published which policy version, and how far behind a version is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace tidemill {

// Not thread-safe. Versions are counted by the steps that published them: numbers lost to a crash
// are no lag.
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
  // Steps between `version` and the step `now` that would use its tokens. 0: it is newer than all
  // that are known, or none is known. UINT64_MAX: older than all that are remembered.
  uint64_t Lag(uint64_t version, uint64_t now) const {
    if (steps_.empty() || steps_.rbegin()->first < version) return 0;
    const auto after = steps_.upper_bound(version);
    if (after == steps_.begin()) return UINT64_MAX;
    const uint64_t step = std::prev(after)->second;
    return now > step ? now - step : 0;
  }
  // The newest few, version to step.
  const std::map<uint64_t, uint64_t>& all() const { return steps_; }

 private:
  static constexpr size_t kRemembered = 4096;
  std::map<uint64_t, uint64_t> steps_;
};

}  // namespace tidemill
