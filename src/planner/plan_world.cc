#include "planner/plan_world.h"

#include <algorithm>
#include <utility>

namespace tidemill {

void PlanWorld::After(double seconds, std::function<void()> what) {
  constexpr double kLongest = 1e8;
  const auto delay = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest)));
  // Rounded up: what is due then has been reached.
  events_.push({clock_.Now() + delay + Duration(seconds > 0), events_made_++, std::move(what)});
}

void PlanWorld::AddLoop(Loop& loop) {
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->loop = &loop;
  loop.Attach(*slots_.back());
}

bool PlanWorld::HappenAll() {
  bool any = false;
  while (!events_.empty() && events_.top().at <= clock_.Now()) {
    const std::function<void()> what = std::move(const_cast<Event&>(events_.top()).what);
    events_.pop();
    what();
    any = true;
  }
  return any;
}

bool PlanWorld::StepAll() {
  bool any = false;
  for (const auto& slot : slots_) {
    if (!slot->woken && slot->wake_at > clock_.Now()) continue;
    slot->woken = false;
    slot->wake_at = slot->loop->Step(clock_.Now());
    // A loop that asks to be stepped again at once gets its turn, but time goes on.
    slot->wake_at = std::max(slot->wake_at, clock_.Now() + std::chrono::microseconds(100));
    any = true;
  }
  return any;
}

bool PlanWorld::Run(MemoryBus& bus, double until, const std::function<bool()>& done) {
  const Time limit =
      Time(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(until)));
  while (!done()) {
    if (HappenAll() | StepAll()) continue;
    const Time deadline = bus.NextDeadline();
    Time next = deadline;
    if (!events_.empty()) next = std::min(next, events_.top().at);
    for (const auto& slot : slots_) next = std::min(next, slot->wake_at);
    if (next > limit) return false;
    clock_.AdvanceTo(std::max(next, clock_.Now() + grain_));
    if (deadline <= clock_.Now()) bus.Poll();
  }
  return true;
}

}  // namespace tidemill
