// Holds samples and inserts of a replay buffer to a ratio, so that neither the learner uses up too
// few episodes too often nor the rollouts run away from it.
//
//   balance = inserts * samples_per_insert - samples;  sample while it stays >= min, insert while
//   <= max
#pragma once

#include <cstdint>
#include <limits>

#include "core/status.h"

namespace tidemill {

struct RateLimits {
  double samples_per_insert = 1;
  uint64_t min_size = 1;  // items there before the first sample
  double min_balance = -std::numeric_limits<double>::infinity();
  double max_balance = std::numeric_limits<double>::infinity();
  uint64_t inserts_at_once = 1;  // the most that CanInsert is asked for
  uint64_t samples_at_once = 1;  // the most that CanSample is asked for
};

// kInvalid: numbers under which the buffer would lock up for ever (an insert and a sample must
// always be possible in turn), or that are none.
Status ValidateRateLimits(const RateLimits& limits);

// Belongs to one loop; not thread-safe; never waits, only answers. An item that leaves before it
// was sampled as often as its insert paid for (evicted, dropped as stale) takes the rest of that
// with it. Otherwise items nobody can sample any more would keep the balance high and inserts shut
// out.
class RateLimiter {
 public:
  explicit RateLimiter(const RateLimits& limits) : limits_(limits) {}

  // While there is less than min_size in the buffer inserts are always allowed and samples never.
  bool CanInsert(uint64_t count = 1) const;
  bool CanSample(uint64_t count = 1) const;

  void Inserted(uint64_t count = 1);
  void Sampled(uint64_t count = 1);
  // One item left the buffer, having been sampled `times_sampled` times.
  void Removed(uint64_t times_sampled);

  double balance() const { return balance_; }
  uint64_t size() const { return size_; }

  // For checkpoints.
  struct State {
    double balance = 0;
    uint64_t size = 0;
  };
  State Save() const { return {balance_, size_}; }
  void Restore(const State& state) {
    balance_ = state.balance;
    size_ = state.size;
  }

 private:
  RateLimits limits_;
  double balance_ = 0;
  uint64_t size_ = 0;
};

}  // namespace tidemill
