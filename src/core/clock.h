// Where time comes from. Loops get the time as an argument of Step(); what else needs it holds a
// Clock, so that a simulated run, which has a VirtualClock, replays exactly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tidemill {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using std::chrono::milliseconds;

inline constexpr Time kNever = Time::max();

inline double Seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline double Milliseconds(Duration d) {
  return Seconds(d) * 1e3;
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; for leases, timers and durations.
  virtual Time Now() const = 0;
  // Milliseconds since 1970; only for records people read and for ages that outlive a process.
  virtual int64_t WallMs() const = 0;
};

class RealClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
  int64_t WallMs() const override {
    return std::chrono::duration_cast<milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

// Stands still until told otherwise.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(int64_t wall_ms_at_zero = 1'700'000'000'000)
      : wall_ms_at_zero_(wall_ms_at_zero) {}
  Time Now() const override { return Time(Duration(now_.load())); }
  int64_t WallMs() const override { return wall_ms_at_zero_ + now_.load() / 1'000'000; }
  void Advance(Duration d) { now_ += d.count(); }
  // Never goes back.
  void AdvanceTo(Time t) {
    if (t > Now()) now_ = t.time_since_epoch().count();
  }

 private:
  std::atomic<int64_t> now_{0};
  int64_t wall_ms_at_zero_;
};

}  // namespace tidemill
