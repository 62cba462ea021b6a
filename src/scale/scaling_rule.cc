#include "scale/scaling_rule.h"

#include <algorithm>
#include <cmath>

namespace tidemill {

size_t WorkersFor(std::span<const LaneLoad> lanes, Duration service, Duration target_wait,
                  double busy) {
  double workers = 0;
  for (const LaneLoad& lane : lanes) {
    const double ready = static_cast<double>(lane.ready);
    // `ready` calls pass through n slots in ready * service / n; more slots than calls help nobody.
    const double rush = std::min(1.0, Seconds(service) / std::max(1e-3, Seconds(target_wait)));
    const double slots = static_cast<double>(lane.leased) / busy + ready * rush;
    workers = std::max(workers, slots / static_cast<double>(std::max<size_t>(1, lane.slots)));
  }
  // A hair less than a whole number of workers is that number.
  return static_cast<size_t>(std::ceil(workers - 1e-9));
}

size_t ScalingRule::Decide(Time now, std::span<const LaneLoad> lanes, Duration service,
                           size_t have) {
  if (began_ == kNever) began_ = now;
  const auto within = [this](size_t n) { return std::clamp(n, options_.min, options_.max); };
  const size_t enough = within(WorkersFor(lanes, service, options_.target_wait, options_.busy_low));
  while (!enough_.empty() && enough_.back().second <= enough) enough_.pop_back();
  enough_.emplace_back(now, enough);
  while (enough_.front().first < now - options_.cool_down) enough_.pop_front();

  const size_t needed =
      within(WorkersFor(lanes, service, options_.target_wait, options_.busy_high));
  if (needed > have) return needed;
  const size_t most = enough_.front().second;
  if (have > options_.max) return options_.max;
  return most < have && now - began_ >= options_.cool_down ? most : have;
}

}  // namespace tidemill
