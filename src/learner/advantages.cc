#include "learner/advantages.h"

#include <cmath>
#include <map>

namespace tidemill {
namespace {

constexpr double kDeviationFloor = 1e-6;

double Mean(std::span<const double> values) {
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double SampleDeviation(std::span<const double> values, double mean) {
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

std::vector<double> CompareAmong(AdvantageKind kind, std::span<const double> rewards) {
  TM_CHECK(kind != AdvantageKind::kVtrace, "V-trace advantages need values, not only rewards");
  std::vector<double> advantages(rewards.size(), 0.0);
  if (rewards.size() < 2) return advantages;
  const double mean = Mean(rewards);
  double scale = 1;
  if (kind == AdvantageKind::kLeaveOneOut) {
    // R - (sum - R) / (k - 1) = (R - mean) k / (k - 1)
    scale = static_cast<double>(rewards.size()) / static_cast<double>(rewards.size() - 1);
  } else if (kind != AdvantageKind::kGroupCentered) {
    scale = 1 / (SampleDeviation(rewards, mean) + kDeviationFloor);
  }
  for (size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - mean) * scale;
  return advantages;
}

std::vector<double> ComputeAdvantages(AdvantageKind kind, std::span<const double> rewards,
                                      std::span<const uint64_t> groups) {
  TM_CHECK(rewards.size() == groups.size(), "every reward needs its group");
  if (kind == AdvantageKind::kBatchWhitened) return CompareAmong(kind, rewards);
  std::map<uint64_t, std::vector<size_t>> members;
  for (size_t i = 0; i < groups.size(); ++i) members[groups[i]].push_back(i);
  std::vector<double> advantages(rewards.size(), 0.0);
  std::vector<double> of_group;
  for (const auto& [group, indices] : members) {
    of_group.clear();
    for (size_t i : indices) of_group.push_back(rewards[i]);
    const std::vector<double> compared = CompareAmong(kind, of_group);
    for (size_t k = 0; k < indices.size(); ++k) advantages[indices[k]] = compared[k];
  }
  return advantages;
}

}  // namespace tidemill
