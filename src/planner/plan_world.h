// Virtual time for loops that are planned: what will happen, and loops stepped by one thread in a
// fixed order. Nothing fails here; the simulator (sim/) is for that. The same calls give the same
// run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "core/clock.h"
#include "core/loop.h"

namespace tidemill {

class PlanWorld {
 public:
  // Time advances by at least `grain`: what happens within it is taken together.
  explicit PlanWorld(Duration grain) : grain_(grain) {}

  const VirtualClock& clock() const { return clock_; }
  double Seconds() const { return tidemill::Seconds(clock_.Now().time_since_epoch()); }
  // After `seconds`.
  void After(double seconds, std::function<void()> what);
  // Must outlive this.
  void AddLoop(Loop& loop);
  // Until `done`, or `until` in seconds. Returns done(). A loop that throws ends it.
  bool Run(MemoryBus& bus, double until, const std::function<bool()>& done);

 private:
  struct Slot final : public Waker {
    Loop* loop = nullptr;
    bool woken = true;
    Time wake_at = Time::min();
    void Wake() override { woken = true; }
  };
  struct Event {
    Time at{};
    uint64_t number = 0;
    std::function<void()> what{};
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  bool HappenAll();
  bool StepAll();

  const Duration grain_;
  VirtualClock clock_;
  uint64_t events_made_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace tidemill
