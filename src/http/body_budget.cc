#include "http/body_budget.h"

namespace tidemill {

bool BodyBudget::Room::Grow(size_t bytes) {
  if (!budget_.Take(owner_, bytes)) return false;
  bytes_ += bytes;
  return true;
}

bool BodyBudget::Take(RequestOwner owner, size_t bytes) {
  if (bytes == 0) return true;
  MutexLock lock(mutex_);
  if (bytes > bytes_max_ - used_) return false;
  const auto it = by_owner_.find(owner);
  const size_t held = (it == by_owner_.end() ? 0 : it->second) + bytes;
  if (held > bytes_max_ - used_ - bytes) return false;
  used_ += bytes;
  by_owner_[owner] = held;
  return true;
}

void BodyBudget::GiveBack(RequestOwner owner, size_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(mutex_);
  used_ -= bytes;
  const auto it = by_owner_.find(owner);
  if ((it->second -= bytes) == 0) by_owner_.erase(it);
}

}  // namespace tidemill
