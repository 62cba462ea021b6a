// Opened boxes kept ready, so that a request does not wait for one. A box is given out once and
// never comes back.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "core/metrics.h"
#include "core/mutex.h"
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
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::unique_ptr<Box>> ready_ TM_GUARDED_BY(mutex_);
  Stats stats_ TM_GUARDED_BY(mutex_);
  bool failed_ TM_GUARDED_BY(mutex_) = false;  // the last opening did
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread filler_;
};

// To Prometheus.
void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink);

}  // namespace tidemill
