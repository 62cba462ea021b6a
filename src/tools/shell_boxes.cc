#include "tools/shell_boxes.h"

#include <vector>

namespace tidemill {

bool ShellBoxes::Reserve(Time now) {
  std::vector<Kept> idle;  // closed outside the lock
  const MutexLock lock(mutex_);
  if (reserved_ >= capacity_) {
    for (auto it = kept_.begin(); it != kept_.end();) {
      if (now - it->second.since <= idle_max_) {
        ++it;
        continue;
      }
      idle.push_back(std::move(it->second));
      it = kept_.erase(it);
      --reserved_;
    }
  }
  if (reserved_ >= capacity_) return false;
  ++reserved_;
  return true;
}

void ShellBoxes::Release() {
  const MutexLock lock(mutex_);
  --reserved_;
}

std::unique_ptr<ShellBox> ShellBoxes::Take(const TrajectoryKey& episode) {
  const MutexLock lock(mutex_);
  auto node = kept_.extract(episode.ToString());
  return node.empty() ? nullptr : std::move(node.mapped().shell);
}

void ShellBoxes::Keep(const TrajectoryKey& episode, std::unique_ptr<ShellBox> shell, Time now) {
  const MutexLock lock(mutex_);
  kept_[episode.ToString()] = {std::move(shell), now};
}

void ShellBoxes::Drop(const TrajectoryKey& episode) {
  std::unique_ptr<ShellBox> gone = Take(episode);
  if (gone != nullptr) Release();
}

void ShellBoxes::DropAll() {
  std::map<std::string, Kept> gone;
  const MutexLock lock(mutex_);
  gone.swap(kept_);
  reserved_ -= gone.size();
}

size_t ShellBoxes::size() const {
  const MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace tidemill
