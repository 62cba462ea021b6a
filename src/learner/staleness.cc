#include "learner/staleness.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tidemill {

void CountHistogram::Add(uint64_t value) {
  buckets_[std::min<uint64_t>(value, kLast)] += 1;
  count_ += 1;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

StalenessStats MeasureStaleness(std::span<const TrainSequence> sequences) {
  StalenessStats stats;
  for (const TrainSequence& sequence : sequences) {
    uint64_t oldest = std::numeric_limits<uint64_t>::max();
    uint64_t newest = 0;
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      if (sequence.mask[i] == 0) continue;
      const uint64_t version = sequence.versions[i];
      oldest = std::min(oldest, version);
      newest = std::max(newest, version);
      stats.lag.Add(sequence.lags[i]);
    }
    if (sequence.trained_tokens > 0) stats.span.Add(newest - oldest);
    stats.masked_tokens += sequence.too_old_tokens;
  }
  return stats;
}

double EffectiveSampleSize(std::span<const double> log_weights) {
  if (log_weights.empty()) return 0;
  // The largest cancels out of the fraction; taking it out first keeps exp() in range.
  const double largest = *std::max_element(log_weights.begin(), log_weights.end());
  double sum = 0;
  double squares = 0;
  for (double log_weight : log_weights) {
    const double weight = std::exp(log_weight - largest);
    sum += weight;
    squares += weight * weight;
  }
  return sum * sum / (static_cast<double>(log_weights.size()) * squares);
}

MismatchStats MeasureMismatch(std::vector<double> differences) {
  MismatchStats stats;
  if (differences.empty()) return stats;
  double sum = 0;
  for (double& difference : differences) {
    difference = std::abs(difference);
    sum += difference;
  }
  const size_t count = differences.size();
  const size_t rank = std::min(count - 1, static_cast<size_t>(std::ceil(0.99 * count)) - 1);
  const auto at = differences.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(differences.begin(), at, differences.end());
  stats.mean = sum / static_cast<double>(count);
  stats.p99 = *at;
  stats.max = *std::max_element(at, differences.end());
  return stats;
}

namespace {

void AddHistogram(const std::string& name, const CountHistogram& histogram,
                  std::map<std::string, double>& metrics) {
  metrics[name + "_mean"] = histogram.mean();
  metrics[name + "_max"] = static_cast<double>(histogram.max());
  for (size_t i = 0; i <= CountHistogram::kLast; ++i) {
    if (histogram.buckets()[i] == 0) continue;
    const char* open = i == CountHistogram::kLast ? "+" : "";
    metrics[name + "_hist_" + std::to_string(i) + open] =
        static_cast<double>(histogram.buckets()[i]);
  }
}

}  // namespace

void AddStalenessMetrics(const StalenessStats& stats, std::map<std::string, double>& metrics) {
  AddHistogram("lag", stats.lag, metrics);
  AddHistogram("span", stats.span, metrics);
  metrics["masked_tokens"] = static_cast<double>(stats.masked_tokens);
}

}  // namespace tidemill
