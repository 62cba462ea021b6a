#include "judge/endpoint_guard.h"

#include <algorithm>

namespace tidemill {

constexpr Duration kBudgetWindow = std::chrono::minutes(1);

bool EndpointGuard::MayStart(Time now) {
  if (now < closed_until_ || (broken() && trying_)) return false;
  while (!started_.empty() && started_.front() + kBudgetWindow <= now) started_.pop_front();
  return limits_.per_minute == 0 || started_.size() < limits_.per_minute;
}

Time EndpointGuard::next(Time now) const {
  if (broken() && trying_) return kNever;
  Time at = std::max(now, closed_until_);
  if (limits_.per_minute > 0 && started_.size() >= limits_.per_minute)
    at = std::max(at, started_.front() + kBudgetWindow);
  return at;
}

void EndpointGuard::Started(Time now) {
  if (limits_.per_minute > 0) started_.push_back(now);
  trying_ = broken();
}

void EndpointGuard::Succeeded() {
  failures_ = 0;
  pauses_ = 0;
  trying_ = false;
}

void EndpointGuard::Failed(Time now, Duration wait) {
  trying_ = false;
  ++failures_;
  if (wait > Duration(0))
    closed_until_ = std::max(closed_until_, now + std::min(wait, limits_.longest_pause * 10));
  if (failures_ < limits_.failures_max && !broken()) return;
  if (now < closed_until_ && broken()) return;  // an answer to an older question
  if (pauses_ == 0) ++breaks_;
  const Duration pause =
      std::min(limits_.longest_pause, limits_.first_pause * (1 << std::min(pauses_, 12u)));
  ++pauses_;
  closed_until_ = std::max(closed_until_, now + Jittered(pause));
}

Duration EndpointGuard::Jittered(Duration duration) {
  const double share = 0.5 + 0.5 * random_.Uniform();
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * share));
}

}  // namespace tidemill
