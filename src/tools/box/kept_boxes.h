// Boxes that wait for their episode's next call. A box of one episode is never given to another.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "core/clock.h"
#include "core/ids.h"
#include "core/mutex.h"
#include "tools/box/box.h"

namespace tidemill {

// Thread-safe.
class KeptBoxes {
 public:
  KeptBoxes(size_t capacity, Duration idle_max) : capacity_(capacity), idle_max_(idle_max) {}

  // The episode's box, or null.
  std::unique_ptr<Box> Take(const TrajectoryKey& episode, Time now);
  // The longest idle one is closed where there is no room; so are those idle for too long.
  void Keep(const TrajectoryKey& episode, std::unique_ptr<Box> box, Time now);
  void Drop(const TrajectoryKey& episode);
  void DropAll();
  size_t size() const;

 private:
  struct Kept {
    TrajectoryKey episode;
    std::unique_ptr<Box> box;
    Time since;
  };
  // Closing happens outside the lock.
  void TakeIdle(Time now, std::list<Kept>* idle) TM_REQUIRES(mutex_);

  const size_t capacity_;
  const Duration idle_max_;
  mutable Mutex mutex_;
  std::list<Kept> kept_ TM_GUARDED_BY(mutex_);  // longest idle first
};

}  // namespace tidemill
