// Memory for the bodies of requests that are on their way, shared by those who send them.
//
// An owner may hold as much as it leaves free. So one owner has half of all at most, the next a
// half of the rest, and however many hold all they can, a newcomer still finds room.
#pragma once

#include <cstddef>
#include <map>

#include "core/mutex.h"
#include "http/request_owner.h"

namespace tidemill {

// Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // The bytes that one body has taken; given back when it is destroyed. The budget must outlive it.
  // Belongs to one thread at a time.
  class Room {
   public:
    Room(BodyBudget& budget, RequestOwner owner) : budget_(budget), owner_(owner) {}
    ~Room() { budget_.GiveBack(owner_, bytes_); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    // For bytes that have arrived. False: there is no room for them.
    bool Grow(size_t bytes);

   private:
    BodyBudget& budget_;
    const RequestOwner owner_;
    size_t bytes_ = 0;
  };

 private:
  bool Take(RequestOwner owner, size_t bytes);
  void GiveBack(RequestOwner owner, size_t bytes);

  const size_t bytes_max_;
  Mutex mutex_;
  size_t used_ TM_GUARDED_BY(mutex_) = 0;
  std::map<RequestOwner, size_t> by_owner_ TM_GUARDED_BY(mutex_);  // those who hold any
};

}  // namespace tidemill
