// Keeps a replay buffer from being sampled more often than its inserts paid for.
//
//   balance = inserts * samples_per_insert - samples;  sample while it stays >= 0
//
// Inserts are limited where they begin, by the dispatcher's gate, which counts by the same rule; so
// nothing ever waits in front of the buffer.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace tidemill {

// Belongs to one loop; not thread-safe; never waits, only answers. An item that leaves before it
// was sampled as often as its insert paid for (evicted, dropped as stale) takes the rest of that
// with it. Otherwise what nobody can sample any more would let the others be sampled too often.
class RateLimiter {
 public:
  // `min_size`: items there before anything is sampled.
  RateLimiter(uint32_t samples_per_insert, uint64_t min_size)
      : samples_per_insert_(samples_per_insert), min_size_(min_size) {}

  bool CanSample(uint64_t count = 1) const {
    return size_ >= min_size_ && balance_ >= static_cast<int64_t>(count);
  }

  void Inserted() {
    ++size_;
    balance_ += samples_per_insert_;
  }
  void Sampled(uint64_t count = 1) { balance_ -= static_cast<int64_t>(count); }
  // One item left the buffer, having been sampled `times_sampled` times. What it was sampled beyond
  // its share stays paid by the others.
  void Removed(uint64_t times_sampled) {
    TM_CHECK(size_ > 0, "an item was removed that was never inserted");
    --size_;
    const int64_t left = samples_per_insert_ - static_cast<int64_t>(times_sampled);
    if (left > 0) balance_ -= left;
  }

 private:
  int64_t samples_per_insert_;
  uint64_t min_size_;
  int64_t balance_ = 0;
  uint64_t size_ = 0;
};

}  // namespace tidemill
