#include "engine/turn_feed.h"

#include <utility>

namespace tidemill {

void TurnFeed::Attach(Waker& waker) {
  MutexLock lock(mutex_);
  waker_ = &waker;
}

void TurnFeed::Detach() {
  MutexLock lock(mutex_);
  waker_ = nullptr;
}

void TurnFeed::Post(std::vector<TurnDelta> deltas) {
  if (deltas.empty()) return;
  MutexLock lock(mutex_);
  for (TurnDelta& delta : deltas) {
    const SequenceId id = delta.part.id;
    const auto [at, first] = pending_.try_emplace(id, deltas_.size());
    const bool ended = delta.done || !delta.status.ok();
    if (first) {
      deltas_.push_back(std::move(delta));
    } else {
      TurnDelta& before = deltas_[at->second];
      AppendPart(before.part, std::move(delta.part));
      before.done = delta.done;
      before.status = std::move(delta.status);
    }
    if (ended) pending_.erase(id);  // what comes next for it is another turn
  }
  // Under the lock, so that nobody is woken after Detach.
  if (waker_ != nullptr) waker_->Wake();
}

std::vector<TurnDelta> TurnFeed::TakeAll() {
  MutexLock lock(mutex_);
  pending_.clear();
  return std::exchange(deltas_, {});
}

}  // namespace tidemill
