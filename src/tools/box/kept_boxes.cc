#include "tools/box/kept_boxes.h"

#include <algorithm>

namespace tidemill {

void KeptBoxes::TakeIdle(Time now, std::list<Kept>* idle) {
  while (!kept_.empty() && (kept_.size() > capacity_ || now - kept_.front().since > idle_max_)) {
    idle->splice(idle->end(), kept_, kept_.begin());
  }
}

std::unique_ptr<Box> KeptBoxes::Take(const TrajectoryKey& episode, Time now) {
  std::list<Kept> idle;
  MutexLock lock(mutex_);
  TakeIdle(now, &idle);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return kept.episode == episode; });
  if (found == kept_.end()) return nullptr;
  std::unique_ptr<Box> box = std::move(found->box);
  kept_.erase(found);
  return box;
}

void KeptBoxes::Keep(const TrajectoryKey& episode, std::unique_ptr<Box> box, Time now) {
  std::list<Kept> idle;
  MutexLock lock(mutex_);
  kept_.push_back({episode, std::move(box), now});
  TakeIdle(now, &idle);
}

void KeptBoxes::Drop(const TrajectoryKey& episode) {
  std::list<Kept> gone;
  MutexLock lock(mutex_);
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto next = std::next(it);
    if (it->episode == episode) gone.splice(gone.end(), kept_, it);
    it = next;
  }
}

void KeptBoxes::DropAll() {
  std::list<Kept> gone;
  MutexLock lock(mutex_);
  gone.swap(kept_);
}

size_t KeptBoxes::size() const {
  MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace tidemill
