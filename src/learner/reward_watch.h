// Notices that the reward of a run fell: the mean over the newest batches against the best such
// mean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace tidemill {

// Belongs to one thread.
class RewardWatch {
 public:
  struct Drop {
    double mean = 0, best = 0;
    uint64_t episodes = 0;  // that the mean is over
  };

  // A batch's rewards, summed up, and its episodes. A drop is told once, and again only after the
  // reward had recovered. One batch of eight says nothing: the mean is over kBatchesMin batches and
  // kEpisodesMin episodes at least.
  std::optional<Drop> Add(double reward_sum, int episodes) {
    newest_.emplace_back(reward_sum, static_cast<uint64_t>(episodes));
    double sum = 0;
    uint64_t count = 0, batches = 0;
    for (auto it = newest_.rbegin(); it != newest_.rend() && !Enough(batches, count); ++it) {
      sum += it->first, count += it->second, ++batches;
    }
    if (!Enough(batches, count)) return std::nullopt;
    newest_.erase(newest_.begin(), newest_.end() - static_cast<ptrdiff_t>(batches));
    const double mean = sum / static_cast<double>(count);
    best_ = std::max(best_, mean);
    const bool low = best_ > 0 && mean < kShareOfBest * best_;
    const bool told = std::exchange(low_, low);
    if (!low || told) return std::nullopt;
    return Drop{mean, best_, count};
  }

 private:
  static constexpr uint64_t kBatchesMin = 8, kEpisodesMin = 128;
  static constexpr double kShareOfBest = 0.5;
  static bool Enough(uint64_t batches, uint64_t episodes) {
    return batches >= kBatchesMin && episodes >= kEpisodesMin;
  }

  std::deque<std::pair<double, uint64_t>> newest_;
  double best_ = 0;
  bool low_ = false;
};

}  // namespace tidemill
