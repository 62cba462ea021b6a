#include "replay/rate_limiter.h"

#include <cmath>
#include <string>

namespace tidemill {
namespace {

// What fractions of a sample may add up to in rounding.
constexpr double kSlack = 1e-6;

}  // namespace

Status ValidateRateLimits(const RateLimits& limits) {
  if (!(limits.samples_per_insert > 0) || !std::isfinite(limits.samples_per_insert)) {
    return Invalid("samples per insert must be a number above 0, got " +
                   std::to_string(limits.samples_per_insert));
  }
  if (limits.min_size == 0) return Invalid("the least size to sample from must be at least 1");
  if (std::isnan(limits.min_balance) || std::isnan(limits.max_balance)) {
    return Invalid("the limits of the balance must be numbers");
  }
  const double at_once = static_cast<double>(limits.samples_at_once);
  const double room =
      limits.samples_per_insert * static_cast<double>(limits.inserts_at_once) + at_once;
  if (limits.max_balance - limits.min_balance < room - kSlack) {
    return Invalid(
        "the balance must have room for what is inserted and sampled at once: its limits " +
        std::to_string(limits.min_balance) + " and " + std::to_string(limits.max_balance) +
        " must be at least " + std::to_string(room) + " apart");
  }
  const double when_filled = limits.samples_per_insert * static_cast<double>(limits.min_size);
  if (when_filled - at_once < limits.min_balance) {
    return Invalid("with " + std::to_string(limits.min_size) +
                   " items a first sample must be possible: the least balance must be at most " +
                   std::to_string(when_filled - at_once));
  }
  return Ok();
}

bool RateLimiter::CanInsert(uint64_t count) const {
  if (size_ < limits_.min_size) return true;
  const double after = balance_ + limits_.samples_per_insert * static_cast<double>(count);
  return after <= limits_.max_balance + kSlack;
}

bool RateLimiter::CanSample(uint64_t count) const {
  if (size_ < limits_.min_size) return false;
  return balance_ - static_cast<double>(count) >= limits_.min_balance - kSlack;
}

void RateLimiter::Inserted(uint64_t count) {
  size_ += count;
  balance_ += limits_.samples_per_insert * static_cast<double>(count);
}

void RateLimiter::Sampled(uint64_t count) {
  balance_ -= static_cast<double>(count);
}

void RateLimiter::Removed(uint64_t times_sampled) {
  TM_CHECK(size_ > 0, "an item was removed that was never inserted");
  --size_;
  // What it was sampled beyond its share stays paid by the others.
  const double left = limits_.samples_per_insert - static_cast<double>(times_sampled);
  if (left > 0) balance_ -= left;
}

}  // namespace tidemill
