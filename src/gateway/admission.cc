#include "gateway/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

constexpr double kBurstSeconds = 10;
constexpr std::chrono::seconds kRetryMost{60};
constexpr size_t kTimesFree = 8;  // of an owner's places, to those that are free

}  // namespace

std::optional<Admission::Entry> Admission::OverRate(Account& account, const Tenant& tenant,
                                                    Time now) const {
  if (tenant.requests_per_minute <= 0) return std::nullopt;
  const double a_second = tenant.requests_per_minute / 60;
  const double most = std::max(1.0, a_second * kBurstSeconds);
  if (!account.started) account.tokens = most;
  if (account.started && now > account.filled) {
    account.tokens = std::min(most, account.tokens + Seconds(now - account.filled) * a_second);
  }
  account.started = true;
  account.filled = now;
  if (account.tokens >= 1) return std::nullopt;
  const double wait = std::ceil((1 - account.tokens) / a_second);
  Entry entry;
  entry.why = fmt::format("Rate limit reached: {} requests a minute for \"{}\"",
                          tenant.requests_per_minute, tenant.name);
  entry.retry_after = std::clamp(std::chrono::seconds(static_cast<int64_t>(std::min(wait, 1e6))),
                                 std::chrono::seconds(1), kRetryMost);
  return entry;
}

Admission::Entry Admission::Enter(const Tenant& tenant, Time now, uint64_t entrance) {
  const RequestOwner owner{.entrance = entrance, .tenant = tenant.id};
  MutexLock lock(mutex_);
  Account& account = accounts_[owner];
  Entry entry;
  entry.retry_after = std::chrono::seconds(1);
  if (tenant.concurrency > 0 && account.inside >= tenant.concurrency) {
    entry.why = fmt::format("\"{}\" has {} requests under way, which is its bound", tenant.name,
                            account.inside);
    return entry;
  }
  const size_t free = limits_.requests_max - std::min(limits_.requests_max, inside_);
  if (free == 0 || account.inside >= kTimesFree * free) {
    entry.why = free == 0 ? fmt::format("The queue is full: {} requests are under way", inside_)
                          : fmt::format(
                                "\"{}\" has {} requests under way; the places that are left "
                                "are for others",
                                tenant.name, account.inside);
    entry.retry_after = std::chrono::seconds(2);
    return entry;
  }
  if (auto refused = OverRate(account, tenant, now)) return std::move(*refused);
  account.tokens -= tenant.requests_per_minute > 0 ? 1 : 0;
  ++account.inside;
  ++inside_;
  entry.place = std::make_unique<Place>(*this, owner);
  return entry;
}

void Admission::Leave(RequestOwner owner) {
  MutexLock lock(mutex_);
  --inside_;
  const auto it = accounts_.find(owner);
  if (--it->second.inside == 0 && !it->second.started) accounts_.erase(it);
}

size_t Admission::inside() const {
  MutexLock lock(mutex_);
  return inside_;
}

}  // namespace tidemill
