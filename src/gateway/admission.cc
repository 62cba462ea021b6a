#include "gateway/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

constexpr double kBurstSeconds = 10;
constexpr std::chrono::seconds kRetryMost{60};

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

Admission::Entry Admission::Enter(const Tenant& tenant, Time now) {
  MutexLock lock(mutex_);
  Account& account = accounts_[tenant.id];
  Entry entry;
  entry.retry_after = std::chrono::seconds(1);
  if (tenant.concurrency > 0 && account.inside >= tenant.concurrency) {
    entry.why = fmt::format("\"{}\" has {} requests under way, which is its bound", tenant.name,
                            account.inside);
    return entry;
  }
  if (inside_ >= limits_.requests_max) {
    entry.why = fmt::format("The queue is full: {} requests are under way", inside_);
    entry.retry_after = std::chrono::seconds(2);
    return entry;
  }
  if (auto refused = OverRate(account, tenant, now)) return std::move(*refused);
  account.tokens -= tenant.requests_per_minute > 0 ? 1 : 0;
  ++account.inside;
  ++inside_;
  entry.place = std::make_unique<Place>(*this, tenant.id);
  return entry;
}

void Admission::Leave(uint64_t tenant) {
  MutexLock lock(mutex_);
  --accounts_[tenant].inside;
  --inside_;
}

size_t Admission::inside() const {
  MutexLock lock(mutex_);
  return inside_;
}

std::map<uint64_t, size_t> Admission::InsideByTenant() const {
  MutexLock lock(mutex_);
  std::map<uint64_t, size_t> result;
  for (const auto& [tenant, account] : accounts_) {
    if (account.inside > 0) result[tenant] = account.inside;
  }
  return result;
}

}  // namespace tidemill
