// Opened boxes kept ready, so that a request does not wait for one. A box is given out once and
// never comes back.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "core/metrics.h"
#include "tools/box/box.h"
#include "tools/box/box_host.h"

namespace tidemill {

// Thread-safe.
class BoxPool {
 public:
  // Keeps `size` boxes ready; 0: every Take opens one.
  BoxPool(BoxHost& host, size_t size);
  ~BoxPool();

  // A box nobody has used, ready for Configure. Opens one where none is ready.
  Result<std::unique_ptr<Box>> Take();

  struct Stats {
    uint64_t warm = 0;  // taken from the pool
    uint64_t cold = 0;  // opened on demand
    size_t ready = 0;
  };
  Stats stats() const;
  // Returns when `size` boxes are ready, or opening one failed.
  void WaitUntilFull();

 private:
  void Fill();

  BoxHost& host_;
  const size_t size_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Box>> ready_;  // guarded by mutex_
  Stats stats_;                             // guarded by mutex_
  bool failed_ = false;                     // guarded by mutex_: the last opening did
  bool stopping_ = false;                   // guarded by mutex_
  std::thread filler_;
};

// To Prometheus.
void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink);

}  // namespace tidemill
