// How old what the learner trains on is, and how far its policy is from the one that sampled.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "learner/packing.h"

namespace tidemill {

// Counts of 0, 1, .. kLast-1, and of kLast or more.
class CountHistogram {
 public:
  static constexpr size_t kLast = 16;
  void Add(uint64_t value);
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  const std::array<uint64_t, kLast + 1>& buckets() const { return buckets_; }

 private:
  std::array<uint64_t, kLast + 1> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

struct StalenessStats {
  CountHistogram lag;          // of each trained token
  CountHistogram span;         // of each sequence: its newest version less its oldest
  uint64_t masked_tokens = 0;  // over a bound, left out
};
StalenessStats MeasureStaleness(std::span<const TrainSequence> sequences);

// (sum w)^2 / (k sum w^2) with w = exp(log_weights); 1: all equal, 1/k: one weight has it all; 0:
// empty.
double EffectiveSampleSize(std::span<const double> log_weights);

// |learner's - sampler's| log-probability of the same token.
struct MismatchStats {
  double mean = 0;
  double p99 = 0;
  double max = 0;
};
MismatchStats MeasureMismatch(std::vector<double> differences);

// Adds "lag_mean", "lag_max", "lag_hist_0".. "lag_hist_16+" (only buckets that are not empty), the
// same for "span", and "masked_tokens".
void AddStalenessMetrics(const StalenessStats& stats, std::map<std::string, double>& metrics);

}  // namespace tidemill
