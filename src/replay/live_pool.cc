#include "replay/live_pool.h"

#include <algorithm>
#include <utility>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kLeftRemembered = 1 << 18;

}  // namespace

std::string LivePool::KeyOf(const v1::TrajectoryId& id) {
  return std::to_string(id.group()) + "/" + std::to_string(id.member()) + "/" + id.task();
}

LivePool::Put LivePool::Replace(const std::string& key, v1::Verdict& verdict,
                                v1::LiveCredit& credit) {
  const auto place = places_.find(key);
  if (place == places_.end()) return Put::kKnown;
  v1::Sample& here = waiting_.at(place->second);
  if (here.live().tenant() != credit.tenant()) return Put::kKnown;
  *here.mutable_verdict() = std::move(verdict);
  *here.mutable_live() = std::move(credit);
  return Put::kRevised;
}

LivePool::Put LivePool::Revise(v1::SampleRevised revised) {
  const std::string key = KeyOf(revised.verdict().id());
  return Replace(key, *revised.mutable_verdict(), *revised.mutable_live());
}

LivePool::Put LivePool::Add(v1::Sample sample) {
  if (forgotten_.contains(sample.trajectory().id().group())) return Put::kKnown;
  const std::string key = KeyOf(sample.trajectory().id());
  if (places_.contains(key)) {
    return Replace(key, *sample.mutable_verdict(), *sample.mutable_live());
  }
  if (left_.contains(key)) return Put::kKnown;
  places_[key] = next_;
  ++tenants_[sample.live().tenant()];
  waiting_.emplace(next_++, std::move(sample));
  return Put::kNew;
}

v1::Sample LivePool::Remove(std::map<uint64_t, v1::Sample>::iterator it) {
  v1::Sample sample = std::move(it->second);
  waiting_.erase(it);
  std::string key = KeyOf(sample.trajectory().id());
  places_.erase(key);
  const auto tenant = tenants_.find(sample.live().tenant());
  if (--tenant->second == 0) tenants_.erase(tenant);
  left_.insert(key);
  left_order_.push_back(std::move(key));
  if (left_order_.size() > kLeftRemembered) {
    left_.erase(left_order_.front());
    left_order_.pop_front();
  }
  return sample;
}

void LivePool::Forget(uint64_t session) {
  forgotten_.insert(session);
  (void)Drop([&](const v1::Sample& sample) { return sample.trajectory().id().group() == session; });
}

std::optional<v1::Sample> LivePool::Overflow() {
  if (waiting_.size() <= capacity_) return std::nullopt;
  const auto most =
      std::max_element(tenants_.begin(), tenants_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& one) {
    return one.second.live().tenant() == most->first;
  });
  return Remove(oldest);
}

std::vector<v1::Sample> LivePool::Drop(const std::function<bool(const v1::Sample&)>& drop) {
  std::vector<v1::Sample> dropped;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto here = it++;
    if (drop(here->second)) dropped.push_back(Remove(here));
  }
  return dropped;
}

size_t LivePool::MostOfOne(size_t count) const {
  return std::max<size_t>(1, static_cast<size_t>(tenant_share_ * static_cast<double>(count)));
}

size_t LivePool::Available(size_t count) const {
  size_t available = 0;
  for (const auto& [tenant, waiting] : tenants_) available += std::min(waiting, MostOfOne(count));
  return std::min(available, count);
}

std::vector<v1::Sample> LivePool::Take(size_t count) {
  TM_CHECK(count <= Available(count), "more live trajectories were asked for than there are");
  std::vector<v1::Sample> taken;
  std::map<std::string, size_t> given;
  for (auto it = waiting_.begin(); taken.size() < count;) {
    const auto here = it++;
    if (given[here->second.live().tenant()]++ < MostOfOne(count)) taken.push_back(Remove(here));
  }
  return taken;
}

}  // namespace tidemill
