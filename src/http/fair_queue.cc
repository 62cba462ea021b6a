#include "http/fair_queue.h"

#include <utility>

#include "core/status.h"

namespace tidemill {

void FairQueue::Push(RequestOwner owner, Work work) {
  MutexLock lock(mutex_);
  std::deque<Work>& own = waiting_[owner];
  if (own.empty()) turns_.push_back(owner);
  own.push_back(std::move(work));
}

FairQueue::Work FairQueue::Pop() {
  MutexLock lock(mutex_);
  TM_CHECK(!turns_.empty(), "more was taken than waited");
  const RequestOwner owner = turns_.front();
  turns_.pop_front();
  const auto it = waiting_.find(owner);
  Work work = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) {
    waiting_.erase(it);
  } else {
    turns_.push_back(owner);
  }
  return work;
}

}  // namespace tidemill
