// The audits of a run's scorers: what is executed besides, what that says of the scorers, and what
// happens after an alarm (reward/audit.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reward/audit.h"
#include "reward/open_score.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class ScorerAudits {
 public:
  ScorerAudits(const std::vector<WeightedScorer>& scorers, const RewardOptions& options);

  // A scorer's version in replay beyond its own is an alarm of another process.
  void LearnVersions(const v1::ScoreRequest& request);
  // Whether execution decides instead of the scorer.
  bool Replaced(const Scorer& scorer) const;
  bool NeedsExecution(const Scorer& scorer, const OpenScore& score) const;
  // The part of a scorer that is replaced.
  Result<v1::RewardPart> ScoreExecuted(const Scorer& scorer, const OpenScore& score) const;
  void AddTo(const Scorer& scorer, const OpenScore& score, v1::RewardPart& part) const;
  // Before the verdict is made: one that raises an alarm is itself decided by execution.
  void Count(const OpenScore& score);
  // Of every scorer that is audited.
  std::vector<const CounterSet*> counters() const;

 private:
  Audit* Of(const Scorer& scorer);
  const Audit* Of(const Scorer& scorer) const;
  void RecordDisagreement(const Scorer& scorer, const OpenScore& score,
                          const v1::ToolResult& grade);

  const std::vector<WeightedScorer>& scorers_;
  const RewardOptions& options_;
  std::vector<Audit> audits_;
  uint32_t disagreements_ = 0;
};

}  // namespace tidemill
