// How useful a case is to a task: Q(task, case), learned from comparisons within groups.
//
// The members of a group try the same task with different cases. A member's reward less the mean of
// the others' says what its cases were worth: the task's difficulty, and every case that all were
// shown, cancel. Q is linear in a few features of the pair, with a term of its own for each case;
// both are Bayesian, so a draw from what is known explores what is not (Thompson sampling).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/random.h"

namespace tidemill {

inline constexpr size_t kCaseFeatures = 10;
using CaseFeatures = std::array<double, kCaseFeatures>;
inline constexpr double kSimilarTask = 0.5;  // tasks at least so similar are of one kind

// A case as a task sees it.
struct CasePair {
  bool solved = false;
  double similarity = 0;  // from 0 to 1
  double age = 0;         // from 0 to 1: very old
  bool outdated = false;  // what it says was right failed later, or its kind of task changed
  bool doubted = false;   // something else that was right then failed later
};
CaseFeatures FeaturesOf(const CasePair& pair);

struct ShownFeatures {
  uint64_t number = 0;
  CaseFeatures features{};
};

struct MemberOutcome {
  double reward = 0;
  std::vector<ShownFeatures> shown;
};

// The estimate for one case: the value of showing it beyond what its features say, and how often
// that could be told.
struct CaseWorth {
  double weight = 0;  // comparisons, each by how much the members differed in this case
  double sum = 0;     // of what they showed
  uint64_t shown = 0;
  uint64_t shown_solved = 0;
};

class CaseValues {
 public:
  CaseValues();

  // A group whose members all have their rewards; two at least.
  void Learn(const std::vector<MemberOutcome>& members);
  void Forget(uint64_t number) { worth_.erase(number); }

  // One draw of what may be true of all cases, for one member of a group.
  class Draw {
   public:
    Draw(const CaseValues& values, Random random, bool explore);
    double operator()(uint64_t number, const CaseFeatures& features);

   private:
    const CaseValues& values_;
    Random random_;
    bool explore_;
    CaseFeatures weights_;
  };

  double Mean(uint64_t number, const CaseFeatures& features) const;
  // Mean and half of a 95 % interval of what showing the case was worth, beyond its features.
  struct Interval {
    double mean = 0, half = 0;
  };
  Interval Worth(uint64_t number) const;
  const CaseWorth* Find(uint64_t number) const;
  const CaseFeatures& weights() const { return mean_; }

 private:
  using Matrix = std::array<CaseFeatures, kCaseFeatures>;
  void Observe(const CaseFeatures& x, double y);
  void Solve();

  Matrix precision_{};
  CaseFeatures moment_{};
  CaseFeatures mean_{};
  Matrix factor_{};  // of the precision, by Cholesky
  std::unordered_map<uint64_t, CaseWorth> worth_;
};

}  // namespace tidemill
