// From what is known of an episode to its verdict: what scorers still need, and the sum of what
// they say.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reward/open_score.h"
#include "reward/scorer_audits.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class VerdictMaker {
 public:
  VerdictMaker(const std::vector<WeightedScorer>& scorers, const ScorerAudits& audits,
               const RewardOptions& options)
      : scorers_(scorers), audits_(audits), options_(options) {}

  // Under the names their answers are kept by; none: the verdict can be made.
  std::map<std::string, Need> Needs(const OpenScore& score) const;
  // Not scored: a scorer of ours failed, or contradicts itself.
  v1::Verdict Make(const OpenScore& score) const;

 private:
  // What the scorers say without the hidden tests.
  TaskSolved SolvedBy(const OpenScore& score) const;
  Status AddRoles(const v1::ScoreRequest& request, v1::Verdict& verdict) const;
  void TakeTime(const OpenScore& score, v1::Verdict& verdict) const;
  void SetSolved(const OpenScore& score, v1::Verdict& verdict) const;
  Status AddParts(const OpenScore& score, v1::Verdict& verdict) const;
  Status AddTurnRewards(const OpenScore& score, v1::Verdict& verdict) const;

  const std::vector<WeightedScorer>& scorers_;
  const ScorerAudits& audits_;
  const RewardOptions& options_;
};

}  // namespace tidemill
