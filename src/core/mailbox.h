// A bounded queue that several threads fill and one loop empties. Completions of ports travel in
// one.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/loop.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

// Thread-safe. The bound is the number of answers the owner may be owed at once: the owner submits
// no more than that, so a full mailbox is a broken contract and not a situation.
template <typename T>
class Mailbox {
 public:
  explicit Mailbox(size_t capacity) : capacity_(capacity) {}

  // Before the first Post that should wake somebody.
  void Attach(Waker& waker) {
    MutexLock lock(mutex_);
    waker_ = &waker;
  }

  void Post(T item) {
    Waker* waker;
    {
      MutexLock lock(mutex_);
      TM_CHECK(items_.size() < capacity_, "a port answered more often than it was asked");
      items_.push_back(std::move(item));
      waker = waker_;
    }
    if (waker != nullptr) waker->Wake();
  }

  // Everything that arrived, in order of arrival.
  std::vector<T> TakeAll() {
    MutexLock lock(mutex_);
    return std::exchange(items_, {});
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  std::vector<T> items_ TM_GUARDED_BY(mutex_);
  Waker* waker_ TM_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tidemill
