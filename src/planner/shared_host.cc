#include "planner/shared_host.h"

#include <algorithm>
#include <utility>

namespace tidemill {

void SharedHost::Pass() {
  const double now = world_.Seconds();
  const double passed = now - std::exchange(world_now_, now);
  now_ += passed * Speed();
  if (capacity_ > 0) busy_s_ += passed * std::min(1.0, wanted_ / capacity_);
}

double SharedHost::Now() {
  Pass();
  return now_;
}

double SharedHost::BusySeconds() {
  Pass();
  return busy_s_;
}

void SharedHost::Load(double width) {
  if (capacity_ <= 0) return;
  Now();
  const double before = Speed();
  wanted_ = std::max(0.0, wanted_ + width);
  if (Speed() != before) Plan();
}

void SharedHost::After(double seconds, std::function<void()> what) {
  if (capacity_ <= 0) return world_.After(seconds, std::move(what));
  const double at = Now() + seconds;
  const bool first = jobs_.empty() || at < jobs_.top().at;
  jobs_.push({at, made_++, std::move(what)});
  if (first) Plan();
}

// The event of an earlier plan finds that it is not the newest.
void SharedHost::Plan() {
  if (jobs_.empty()) return;
  const double left = std::max(0.0, jobs_.top().at - now_);
  world_.After(left / Speed(), [this, plan = ++planned_] {
    if (plan == planned_) Happen();
  });
}

void SharedHost::Happen() {
  constexpr double kRounding = 1e-8;  // the clock counts nanoseconds
  while (!jobs_.empty() && jobs_.top().at <= Now() + kRounding) {
    const std::function<void()> what = std::move(const_cast<Job&>(jobs_.top()).what);
    jobs_.pop();
    what();
  }
  Plan();
}

}  // namespace tidemill
