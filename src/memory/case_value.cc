#include "memory/case_value.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tidemill {
namespace {

// The assumptions before anything was compared: right cases of similar tasks help, failed ones and
// right ones of other tasks a little. What is outdated does not, nor what says what other tasks
// need or what fails here from a time when something else was right.
constexpr CaseFeatures kPriorMean = {0.3,   0.15, -0.05, -0.02, 0.12,
                                     -0.05, -0.5, -0.25, -0.25, -0.25};
constexpr double kPriorPrecision = 96;
// A comparison counts for less with every later one, so that a world that changed is learned anew.
constexpr double kKept = 0.99;
constexpr double kWorthKept = 0.8;  // the same for the term of a case, with each use
constexpr double kNoise = 0.2;      // variance of a reward that cases do not explain
constexpr double kWorthPrior = 48;  // comparisons that the term of a case being 0 is worth

double Dot(const CaseFeatures& a, const CaseFeatures& b) {
  double sum = 0;
  for (size_t i = 0; i < kCaseFeatures; ++i) sum += a[i] * b[i];
  return sum;
}

void AddTo(CaseFeatures& a, const CaseFeatures& b, double scale) {
  for (size_t i = 0; i < kCaseFeatures; ++i) a[i] += scale * b[i];
}

CaseFeatures SumOf(const MemberOutcome& member) {
  CaseFeatures sum{};
  for (const ShownFeatures& shown : member.shown) AddTo(sum, shown.features, 1);
  return sum;
}

}  // namespace

CaseFeatures FeaturesOf(const CasePair& pair) {
  CaseFeatures features{};
  const size_t kind = pair.solved ? 0 : 1;
  const bool similar = pair.similarity >= kSimilarTask;
  features[kind] = similar ? pair.similarity : 0;
  features[2 + kind] = similar ? pair.similarity * pair.age : 0;
  features[4 + kind] = similar ? 0 : 1;
  features[6 + kind] = pair.outdated ? 1 : 0;
  features[8 + kind] = pair.doubted && similar != pair.solved ? 1 : 0;
  return features;
}

CaseValues::CaseValues() {
  for (size_t i = 0; i < kCaseFeatures; ++i) {
    precision_[i][i] = kPriorPrecision;
    moment_[i] = kPriorPrecision * kPriorMean[i];
  }
  Solve();
}

void CaseValues::Learn(const std::vector<MemberOutcome>& members) {
  if (members.size() < 2) return;
  const double others = static_cast<double>(members.size() - 1);
  CaseFeatures all{};
  double rewards = 0;
  std::map<uint64_t, double> uses;  // in order, so that sums are the same everywhere
  for (const MemberOutcome& member : members) {
    AddTo(all, SumOf(member), 1);
    rewards += member.reward;
    for (const ShownFeatures& shown : member.shown) {
      uses[shown.number] += 1;
      CaseWorth& worth = worth_[shown.number];
      ++worth.shown;
      worth.shown_solved += member.reward > 0.5;
    }
  }
  struct Seen {
    double evidence = 0, weight = 0;
  };
  std::map<uint64_t, Seen> seen;
  for (const MemberOutcome& member : members) {
    const double label = member.reward - (rewards - member.reward) / others;
    CaseFeatures mine = SumOf(member), contrast{};
    for (size_t i = 0; i < kCaseFeatures; ++i) contrast[i] = mine[i] - (all[i] - mine[i]) / others;
    const double left = label - Dot(mean_, contrast);
    Observe(contrast, label);
    for (const auto& [number, count] : uses) {
      const bool had = std::any_of(member.shown.begin(), member.shown.end(),
                                   [&](const ShownFeatures& one) { return one.number == number; });
      const double exposure = had - (count - had) / others;
      seen[number].evidence += exposure * left;
      seen[number].weight += exposure * exposure;
    }
  }
  for (const auto& [number, one] : seen) {
    if (one.weight == 0) continue;
    CaseWorth& worth = worth_[number];
    worth.weight = kWorthKept * worth.weight + one.weight;
    worth.sum = kWorthKept * worth.sum + one.evidence;
  }
  Solve();
}

void CaseValues::Observe(const CaseFeatures& x, double y) {
  if (Dot(x, x) == 0) return;
  for (size_t i = 0; i < kCaseFeatures; ++i) {
    for (size_t j = 0; j < kCaseFeatures; ++j) {
      const double prior = i == j ? (1 - kKept) * kPriorPrecision : 0;
      precision_[i][j] = kKept * precision_[i][j] + prior + x[i] * x[j];
    }
    moment_[i] = kKept * moment_[i] + (1 - kKept) * kPriorPrecision * kPriorMean[i] + x[i] * y;
  }
}

void CaseValues::Solve() {
  for (size_t i = 0; i < kCaseFeatures; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = precision_[i][j];
      for (size_t k = 0; k < j; ++k) sum -= factor_[i][k] * factor_[j][k];
      factor_[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / factor_[j][j];
    }
  }
  CaseFeatures half{};
  for (size_t i = 0; i < kCaseFeatures; ++i) {
    double sum = moment_[i];
    for (size_t k = 0; k < i; ++k) sum -= factor_[i][k] * half[k];
    half[i] = sum / factor_[i][i];
  }
  for (size_t i = kCaseFeatures; i-- > 0;) {
    double sum = half[i];
    for (size_t k = i + 1; k < kCaseFeatures; ++k) sum -= factor_[k][i] * mean_[k];
    mean_[i] = sum / factor_[i][i];
  }
}

double CaseValues::Mean(uint64_t number, const CaseFeatures& features) const {
  return Dot(mean_, features) + Worth(number).mean;
}

CaseValues::Interval CaseValues::Worth(uint64_t number) const {
  const CaseWorth* worth = Find(number);
  const double weight = (worth != nullptr ? worth->weight : 0) + kWorthPrior;
  return {(worth != nullptr ? worth->sum : 0) / weight, 1.96 * std::sqrt(kNoise / weight)};
}

const CaseWorth* CaseValues::Find(uint64_t number) const {
  const auto it = worth_.find(number);
  return it == worth_.end() ? nullptr : &it->second;
}

// The features' weights are drawn once, from a normal distribution of the precision's inverse.
CaseValues::Draw::Draw(const CaseValues& values, Random random, bool explore)
    : values_(values), random_(random), explore_(explore), weights_(values.mean_) {
  if (!explore_) return;
  CaseFeatures normal{};
  for (double& x : normal) x = random_.Normal() * std::sqrt(kNoise);
  CaseFeatures step{};
  for (size_t i = kCaseFeatures; i-- > 0;) {
    double sum = normal[i];
    for (size_t k = i + 1; k < kCaseFeatures; ++k) sum -= values.factor_[k][i] * step[k];
    step[i] = sum / values.factor_[i][i];
  }
  AddTo(weights_, step, 1);
}

double CaseValues::Draw::operator()(uint64_t number, const CaseFeatures& features) {
  const Interval worth = values_.Worth(number);
  const double own = explore_ ? random_.Normal() * worth.half / 1.96 : 0;
  return Dot(weights_, features) + worth.mean + own;
}

}  // namespace tidemill
