// Small things that tests of a bus share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bus/bus.h"

namespace tidemill {

class CountingWaker final : public Waker {
 public:
  void Wake() override {
    {
      std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  // Waits for the count to pass `seen`, a moment at most; false if it did not.
  bool WaitPast(uint64_t seen, Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return count_ > seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

inline std::vector<std::string> Bodies(const std::vector<Lease>& leases) {
  std::vector<std::string> bodies;
  for (const Lease& lease : leases) bodies.push_back(lease.body);
  return bodies;
}

}  // namespace tidemill
