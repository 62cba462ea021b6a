// How many tool workers a load asks for. Pure: no clock, no I/O.
//
//   ready, leased, service time --WorkersFor--> workers --ScalingRule (hysteresis)--> workers to
//   have
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "core/clock.h"

namespace tidemill {

struct ScalingOptions {
  size_t min = 1;
  size_t max = 8;
  Duration target_wait = milliseconds(500);  // a call should wait no longer for a slot
  Duration cool_down =
      std::chrono::seconds(60);  // how long fewer must have been enough before any leave
  // Share of the slots that may be busy: above `busy_high` workers are added, and as many may leave
  // as keep it below `busy_low`.
  double busy_high = 0.9;
  double busy_low = 0.7;
};

// The load of agents' calls, or of gradings: each kind has slots of its own.
struct LaneLoad {
  uint64_t ready = 0;
  uint64_t leased = 0;
  size_t slots = 1;  // of one worker
};

// So many workers that what runs keeps no more than the share `busy` of the slots and what waits
// gets one within the target. `service` is the mean time of a call. Not yet between min and max.
size_t WorkersFor(std::span<const LaneLoad> lanes, Duration service, Duration target_wait,
                  double busy);

// More at once, fewer only when fewer were enough for a whole cool-down.
class ScalingRule {
 public:
  explicit ScalingRule(const ScalingOptions& options) : options_(options) {}

  // How many there should be now, `have` being there or on their way. Time never goes back.
  size_t Decide(Time now, std::span<const LaneLoad> lanes, Duration service, size_t have);

 private:
  const ScalingOptions options_;
  // The sufficient numbers with their times, oldest first; an entry with a later one as high is
  // left out.
  std::deque<std::pair<Time, size_t>> enough_;
  Time began_ = kNever;
};

}  // namespace tidemill
