#include "reward/scorer_audits.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tidemill {
namespace {

constexpr uint32_t kDisagreementsKept = 200;

}  // namespace

ScorerAudits::ScorerAudits(const std::vector<WeightedScorer>& scorers, const RewardOptions& options)
    : scorers_(scorers), options_(options) {
  for (const WeightedScorer& weighted : scorers_) {
    if (weighted.scorer->IsAudited())
      audits_.emplace_back(std::string(weighted.scorer->name()), options.audit, options.seed);
  }
}

const Audit* ScorerAudits::Of(const Scorer& scorer) const {
  const auto it = std::find_if(audits_.begin(), audits_.end(),
                               [&](const Audit& audit) { return audit.scorer() == scorer.name(); });
  return it == audits_.end() ? nullptr : &*it;
}

Audit* ScorerAudits::Of(const Scorer& scorer) {
  return const_cast<Audit*>(std::as_const(*this).Of(scorer));
}

std::vector<const CounterSet*> ScorerAudits::counters() const {
  std::vector<const CounterSet*> sets;
  if (options_.audit.share <= 0) return sets;
  for (const Audit& audit : audits_) sets.push_back(&audit.counters());
  return sets;
}

void ScorerAudits::LearnVersions(const v1::ScoreRequest& request) {
  for (const v1::ScorerVersion& known : request.known_versions()) {
    for (const WeightedScorer& weighted : scorers_) {
      if (weighted.scorer->name() != known.scorer()) continue;
      const uint32_t own = weighted.scorer->version();
      if (Audit* audit = Of(*weighted.scorer); audit != nullptr)
        audit->LearnRise(known.version() > own ? known.version() - own : 0);
    }
  }
}

bool ScorerAudits::Replaced(const Scorer& scorer) const {
  const Audit* audit = Of(scorer);
  return audit != nullptr && !audit->trusted();
}

bool ScorerAudits::NeedsExecution(const Scorer& scorer, const OpenScore& score) const {
  const Audit* audit = Of(scorer);
  if (audit == nullptr || !HasHiddenTests(score.request)) return false;
  if (score.evidence.Tool("grade") != nullptr) return false;
  return !audit->trusted() || audit->Draws(score.request.id());
}

Result<v1::RewardPart> ScorerAudits::ScoreExecuted(const Scorer& scorer,
                                                   const OpenScore& score) const {
  const Audit& audit = *Of(scorer);
  const v1::ToolResult* grade = score.evidence.Tool("grade");
  if (grade == nullptr) {
    return Unavailable("it is no longer trusted after its audit (" + audit.Text() +
                       "), and the task has no tests");
  }
  return MakePart(scorer, TestsValue(*grade, options_.all_or_nothing),
                  std::to_string(grade->tests_passed()) + " of " +
                      std::to_string(grade->tests_total()) +
                      " tests; not trusted: " + audit.Text());
}

void ScorerAudits::AddTo(const Scorer& scorer, const OpenScore& score, v1::RewardPart& part) const {
  const Audit* audit = Of(scorer);
  if (audit == nullptr) return;
  part.set_scorer_version(part.scorer_version() + audit->rise());
  const v1::ToolResult* grade = score.evidence.Tool("grade");
  const TaskSolved claim = scorer.Solved(score.request, score.evidence);
  const bool claims = claim == TaskSolved::kYes || claim == TaskSolved::kNo;
  const bool drawn = audit->Draws(score.request.id()) &&
                     score.request.purpose() != v1::PURPOSE_EVAL && audit->trusted();
  if (grade == nullptr || !claims || !drawn) return;
  part.set_audited(true);
  part.set_executed(TestsValue(*grade, options_.all_or_nothing));
  if (!options_.audit.unbiased) return;
  part.set_correction((part.executed() - part.value()) / audit->share());
  part.set_value(part.value() + part.correction());
}

// For people; what is true of the answer stays true, so that the first ones are enough.
void ScorerAudits::RecordDisagreement(const Scorer& scorer, const OpenScore& score,
                                      const v1::ToolResult& grade) {
  if (options_.journal == nullptr || disagreements_ >= kDisagreementsKept) return;
  ++disagreements_;
  const auto said = scorer.Score(score.request, score.evidence);
  const uint32_t passed = grade.tests_passed(), total = grade.tests_total();
  std::string why = std::to_string(passed) + " of " + std::to_string(total) + " hidden tests pass";
  if (passed == total) why += ", and none of them asks what the scorer objects to";
  if (!grade.compiled()) why += "; it does not compile";
  const v1::TrajectoryId& id = score.request.id();
  options_.journal->Record("disagreement",
                           {{"group", static_cast<double>(id.group())},
                            {"member", static_cast<double>(id.member())},
                            {"executed", passed == total ? 1.0 : 0.0}},
                           {{"task", id.task()},
                            {"scorer", std::string(scorer.name())},
                            {"comment", said.ok() ? said->comment() : said.status().message()},
                            {"explanation", why}});
}

void ScorerAudits::Count(const OpenScore& score) {
  const v1::ToolResult* grade = score.evidence.Tool("grade");
  if (grade == nullptr || score.request.purpose() == v1::PURPOSE_EVAL) return;
  if (options_.audit.share <= 0) return;
  for (const WeightedScorer& weighted : scorers_) {
    Audit* audit = Of(*weighted.scorer);
    if (audit == nullptr || !audit->trusted() || !WeightOf(weighted, score.request)) continue;
    const TaskSolved claim = weighted.scorer->Solved(score.request, score.evidence);
    if (claim != TaskSolved::kYes && claim != TaskSolved::kNo) continue;
    const bool passed = grade->tests_total() > 0 && grade->tests_passed() == grade->tests_total();
    const bool accepted = claim == TaskSolved::kYes;
    if (accepted != passed) RecordDisagreement(*weighted.scorer, score, *grade);
    if (!audit->Add(accepted, passed) || options_.journal == nullptr) continue;
    options_.journal->Record(
        "warning", {{"audit_alarms", static_cast<double>(audit->counters().alarms.load())}},
        {{"what", "the scorer " + audit->scorer() + " is not trusted any more: " + audit->Text() +
                      "; execution decides until audit.trust names it"}});
  }
}

}  // namespace tidemill
