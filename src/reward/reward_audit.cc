// The audit of the reward loop: what is executed besides, what that says of the scorers, and what
// happens after an alarm.
#include <algorithm>

#include "reward/reward_loop.h"

namespace tidemill {

const Audit* RewardLoop::AuditOf(const Scorer& scorer) const {
  const auto it = std::find_if(audits_.begin(), audits_.end(),
                               [&](const Audit& audit) { return audit.scorer() == scorer.name(); });
  return it == audits_.end() ? nullptr : &*it;
}

Audit* RewardLoop::AuditOf(const Scorer& scorer) {
  return const_cast<Audit*>(std::as_const(*this).AuditOf(scorer));
}

std::vector<const CounterSet*> RewardLoop::audit_counters() const {
  std::vector<const CounterSet*> sets;
  if (options_.audit.share <= 0) return sets;
  for (const Audit& audit : audits_) sets.push_back(&audit.counters());
  return sets;
}

// What replay has seen of a scorer beyond its own version is an alarm of another process.
void RewardLoop::LearnVersions(const v1::ScoreRequest& request) {
  for (const v1::ScorerVersion& known : request.known_versions()) {
    for (const WeightedScorer& weighted : scorers_) {
      if (weighted.scorer->name() != known.scorer()) continue;
      const uint32_t own = weighted.scorer->version();
      if (Audit* audit = AuditOf(*weighted.scorer); audit != nullptr)
        audit->LearnRise(known.version() > own ? known.version() - own : 0);
    }
  }
}

void RewardLoop::CountProof(const ScorerDone& done) {
  const bool decided = done.answer.has_score;
  ++(!decided ? counters_.undecided : done.answer.score > 0 ? counters_.proved : counters_.refuted);
  counters_.proof_micros += done.cpu_us;
}

bool RewardLoop::Replaced(const Scorer& scorer) const {
  const Audit* audit = AuditOf(scorer);
  return audit != nullptr && !audit->trusted();
}

bool RewardLoop::NeedsExecution(const Scorer& scorer, const Scoring& scoring) const {
  const Audit* audit = AuditOf(scorer);
  if (audit == nullptr || !HasHiddenTests(scoring.request)) return false;
  if (scoring.evidence.Tool("grade") != nullptr) return false;
  return !audit->trusted() || audit->Draws(scoring.request.id());
}

Result<v1::RewardPart> RewardLoop::ScoreExecuted(const Scorer& scorer,
                                                 const Scoring& scoring) const {
  const Audit& audit = *AuditOf(scorer);
  const v1::ToolResult* grade = scoring.evidence.Tool("grade");
  if (grade == nullptr) {
    return Unavailable("it is no longer trusted after its audit (" + audit.Text() +
                       "), and the task has no tests");
  }
  return MakePart(scorer, TestsValue(*grade, options_.all_or_nothing),
                  std::to_string(grade->tests_passed()) + " of " +
                      std::to_string(grade->tests_total()) +
                      " tests; not trusted: " + audit.Text());
}

void RewardLoop::AddAudit(const Scorer& scorer, const Scoring& scoring,
                          v1::RewardPart& part) const {
  const Audit* audit = AuditOf(scorer);
  if (audit == nullptr) return;
  part.set_scorer_version(part.scorer_version() + audit->rise());
  const v1::ToolResult* grade = scoring.evidence.Tool("grade");
  const TaskSolved claim = scorer.Solved(scoring.request, scoring.evidence);
  const bool claims = claim == TaskSolved::kYes || claim == TaskSolved::kNo;
  const bool drawn = audit->Draws(scoring.request.id()) &&
                     scoring.request.purpose() != v1::PURPOSE_EVAL && audit->trusted();
  if (grade == nullptr || !claims || !drawn) return;
  part.set_audited(true);
  part.set_executed(TestsValue(*grade, options_.all_or_nothing));
  if (!options_.audit.unbiased) return;
  part.set_correction((part.executed() - part.value()) / audit->share());
  part.set_value(part.value() + part.correction());
}

// For people; what is true of the answer stays true, so that the first ones are enough.
void RewardLoop::RecordDisagreement(const Scorer& scorer, const Scoring& scoring,
                                    const v1::ToolResult& grade) {
  if (options_.journal == nullptr || disagreements_ >= kDisagreementsKept) return;
  ++disagreements_;
  const auto said = scorer.Score(scoring.request, scoring.evidence);
  const uint32_t passed = grade.tests_passed(), total = grade.tests_total();
  std::string why = std::to_string(passed) + " of " + std::to_string(total) + " hidden tests pass";
  if (passed == total) why += ", and none of them asks what the scorer objects to";
  if (!grade.compiled()) why += "; it does not compile";
  const v1::TrajectoryId& id = scoring.request.id();
  options_.journal->Record("disagreement",
                           {{"group", static_cast<double>(id.group())},
                            {"member", static_cast<double>(id.member())},
                            {"executed", passed == total ? 1.0 : 0.0}},
                           {{"task", id.task()},
                            {"scorer", std::string(scorer.name())},
                            {"comment", said.ok() ? said->comment() : said.status().message()},
                            {"explanation", why}});
}

// Before the verdict is made: one that raises an alarm is itself decided by execution.
void RewardLoop::CountAudits(const Scoring& scoring) {
  const v1::ToolResult* grade = scoring.evidence.Tool("grade");
  if (grade == nullptr || scoring.request.purpose() == v1::PURPOSE_EVAL) return;
  if (options_.audit.share <= 0) return;
  for (const WeightedScorer& weighted : scorers_) {
    Audit* audit = AuditOf(*weighted.scorer);
    if (audit == nullptr || !audit->trusted() || !WeightOf(weighted, scoring)) continue;
    const TaskSolved claim = weighted.scorer->Solved(scoring.request, scoring.evidence);
    if (claim != TaskSolved::kYes && claim != TaskSolved::kNo) continue;
    const bool passed = grade->tests_total() > 0 && grade->tests_passed() == grade->tests_total();
    const bool accepted = claim == TaskSolved::kYes;
    if (accepted != passed) RecordDisagreement(*weighted.scorer, scoring, *grade);
    if (!audit->Add(accepted, passed) || options_.journal == nullptr) continue;
    options_.journal->Record(
        "warning", {{"audit_alarms", static_cast<double>(audit->counters().alarms.load())}},
        {{"what", "the scorer " + audit->scorer() + " is not trusted any more: " + audit->Text() +
                      "; execution decides until audit.trust names it"}});
  }
}

}  // namespace tidemill
