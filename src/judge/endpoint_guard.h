// When an endpoint may be asked: a budget per minute, and a circuit breaker that stops asking one
// that fails and tries it again with a single question after a while.
#pragma once

#include <cstdint>
#include <deque>

#include "core/clock.h"
#include "core/random.h"

namespace tidemill {

struct EndpointLimits {
  uint32_t per_minute = 0;                         // 0: no limit
  uint32_t failures_max = 5;                       // in a row; then it is not asked for a while
  Duration first_pause = std::chrono::seconds(1);  // doubled with every failed trial
  Duration longest_pause = std::chrono::minutes(1);
};

// Belongs to one loop; not thread-safe. Time comes only from the caller.
class EndpointGuard {
 public:
  EndpointGuard(const EndpointLimits& limits, uint64_t seed) : limits_(limits), random_(seed) {}

  // Whether a question may be sent now. One that is sent must be told (Started).
  bool MayStart(Time now);
  // When to ask again whether one may; kNever: when an answer came.
  Time next(Time now) const;
  void Started(Time now);
  void Succeeded();
  // `wait`: the endpoint said how long to leave it alone; 0: it did not.
  void Failed(Time now, Duration wait);

  bool broken() const { return pauses_ > 0; }
  uint64_t breaks() const { return breaks_; }
  // Between half of it and all of it.
  Duration Jittered(Duration duration);

 private:
  const EndpointLimits limits_;
  Random random_;
  std::deque<Time> started_;  // within the last minute, where that is limited
  uint32_t failures_ = 0;     // in a row
  uint32_t pauses_ = 0;       // in a row; 0: all is well
  bool trying_ = false;       // the single question after a pause is out
  Time closed_until_ = Time::min();
  uint64_t breaks_ = 0;
};

}  // namespace tidemill
