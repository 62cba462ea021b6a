// The gateway's figures for people: the last half hour in slots of ten seconds, and sums by tenant
// and by kind of error since the start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "core/mutex.h"
#include "engine/engine.h"
#include "gateway/gateway_loop.h"
#include "gateway/request_report.h"

namespace tidemill {

// Durations of 1 ms to about 2 minutes, each known to within a fifth.
class DurationCounts {
 public:
  void Add(double seconds);
  void Add(const DurationCounts& other);
  // In milliseconds; negative: there are none.
  double PercentileMs(double share) const;

 private:
  static constexpr size_t kBuckets = 64;
  std::array<uint32_t, kBuckets> counts_{};
};

// Thread-safe. Time comes from the caller.
class GatewayFigures {
 public:
  static constexpr int64_t kSlotMs = 10'000;
  static constexpr size_t kSlots = 180;

  void Over(const RequestReport& report, const GatewayLoop::Counts& counts, int64_t wall_ms);

  struct Now {
    std::string model{};
    GatewayLoop::Counts counts{};
    EngineStats engine{};
    int64_t wall_ms = 0;
  };
  // One object, as docs/api.md says.
  std::string Json(const Now& now) const;

 private:
  struct Sums {
    uint64_t requests = 0;
    uint64_t errors = 0;  // refused or failed
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t answer_tokens = 0;
    int64_t last_ms = 0;
    void Add(const RequestReport& report, int64_t wall_ms);
  };
  struct Slot {
    int64_t begin_ms = 0;
    Sums sums{};
    DurationCounts first_token{};
    size_t running = 0;  // the most that were seen
    size_t waiting = 0;
  };
  Slot& SlotOf(int64_t wall_ms) const TM_REQUIRES(mutex_);

  mutable Mutex mutex_;
  mutable std::deque<Slot> slots_ TM_GUARDED_BY(mutex_);  // those with anything, the oldest first
  Sums total_ TM_GUARDED_BY(mutex_);
  std::map<std::string, Sums> tenants_ TM_GUARDED_BY(mutex_);  // bounded
  std::map<std::string, Sums> errors_ TM_GUARDED_BY(mutex_);   // bounded
};

}  // namespace tidemill
