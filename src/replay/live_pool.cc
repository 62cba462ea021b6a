#include "replay/live_pool.h"

#include <utility>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kLeftRemembered = 1 << 18;

}  // namespace

std::string LivePool::KeyOf(const v1::TrajectoryId& id) {
  return std::to_string(id.group()) + "/" + std::to_string(id.member()) + "/" + id.task();
}

LivePool::Put LivePool::Add(v1::Sample sample) {
  if (forgotten_.contains(sample.trajectory().id().group())) return Put::kKnown;
  const std::string key = KeyOf(sample.trajectory().id());
  const auto place = places_.find(key);
  if (place != places_.end()) {
    v1::Sample& here = waiting_.at(place->second);
    *here.mutable_verdict() = std::move(*sample.mutable_verdict());
    *here.mutable_live() = std::move(*sample.mutable_live());
    return Put::kRevised;
  }
  if (sample.trajectory().turns_size() == 0 || left_.contains(key)) return Put::kKnown;
  places_[key] = next_;
  waiting_.emplace(next_++, std::move(sample));
  return Put::kNew;
}

v1::Sample LivePool::Remove(std::map<uint64_t, v1::Sample>::iterator it) {
  v1::Sample sample = std::move(it->second);
  waiting_.erase(it);
  std::string key = KeyOf(sample.trajectory().id());
  places_.erase(key);
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
  return Remove(waiting_.begin());
}

std::vector<v1::Sample> LivePool::Drop(const std::function<bool(const v1::Sample&)>& drop) {
  std::vector<v1::Sample> dropped;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto here = it++;
    if (drop(here->second)) dropped.push_back(Remove(here));
  }
  return dropped;
}

std::vector<v1::Sample> LivePool::Take(size_t count) {
  TM_CHECK(count <= waiting_.size(), "more live trajectories were asked for than there are");
  std::vector<v1::Sample> taken;
  while (taken.size() < count) taken.push_back(Remove(waiting_.begin()));
  return taken;
}

}  // namespace tidemill
