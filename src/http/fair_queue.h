// Work that waits for a thread, in turns: each owner's first, then each owner's second. Whoever
// brings much waits for himself alone.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>

#include "core/mutex.h"
#include "http/request_owner.h"

namespace tidemill {

// Thread-safe. Whoever pushes sees to it that Pop is called as often.
class FairQueue {
 public:
  using Work = std::function<void()>;

  void Push(RequestOwner owner, Work work);
  // The next owner's oldest. There must be one.
  Work Pop();

 private:
  Mutex mutex_;
  std::map<RequestOwner, std::deque<Work>> waiting_ TM_GUARDED_BY(mutex_);  // none is empty
  std::deque<RequestOwner> turns_ TM_GUARDED_BY(mutex_);                    // each who waits, once
};

}  // namespace tidemill
