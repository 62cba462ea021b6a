#include "reward/scorer.h"

#include <algorithm>

namespace tidemill {
namespace {

v1::RewardPart Part(const Scorer& scorer, double value, std::string comment) {
  v1::RewardPart part;
  part.set_scorer(std::string(scorer.name()));
  part.set_scorer_version(scorer.version());
  part.set_value(value);
  part.set_comment(std::move(comment));
  return part;
}

Status NoEvidence(std::string_view what) {
  return Unavailable("no result of " + std::string(what));
}

class TestsScorer final : public Scorer {
 public:
  explicit TestsScorer(bool all_or_nothing) : all_or_nothing_(all_or_nothing) {}
  std::string_view name() const override { return "tests"; }
  uint32_t version() const override { return 1; }
  bool NeedsGrade() const override { return true; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest&,
                               const ScoreEvidence& evidence) const override {
    if (evidence.grade == nullptr) return NoEvidence("grading");
    const uint32_t passed = evidence.grade->tests_passed(), total = evidence.grade->tests_total();
    double value = total == 0 ? 0 : static_cast<double>(passed) / total;
    if (all_or_nothing_) value = total > 0 && passed == total ? 1 : 0;
    return Part(*this, value, std::to_string(passed) + " of " + std::to_string(total) + " tests");
  }

 private:
  bool all_or_nothing_;
};

class CompiledScorer final : public Scorer {
 public:
  std::string_view name() const override { return "compiled"; }
  uint32_t version() const override { return 1; }
  bool NeedsGrade() const override { return true; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest&,
                               const ScoreEvidence& evidence) const override {
    if (evidence.grade == nullptr) return NoEvidence("grading");
    const bool compiled = evidence.grade->compiled();
    return Part(*this, compiled ? 1 : 0, compiled ? "it builds" : "it does not build");
  }
};

class LintScorer final : public Scorer {
 public:
  explicit LintScorer(double penalty) : penalty_(penalty) {}
  std::string_view name() const override { return "lint"; }
  uint32_t version() const override { return 1; }
  bool NeedsLint() const override { return true; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest&,
                               const ScoreEvidence& evidence) const override {
    if (evidence.lint == nullptr) return NoEvidence("lint");
    const int findings = evidence.lint->diagnostics_size();
    return Part(*this, std::max(0.0, 1.0 - penalty_ * findings),
                std::to_string(findings) + (findings == 1 ? " finding" : " findings"));
  }

 private:
  double penalty_;
};

class LengthScorer final : public Scorer {
 public:
  std::string_view name() const override { return "length"; }
  uint32_t version() const override { return 1; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence&) const override {
    const double allowed = std::max<double>(1, request.max_tokens());
    const double share = std::min(1.0, request.generated_tokens() / allowed);
    return Part(*this, 1.0 - share,
                std::to_string(request.generated_tokens()) + " of " +
                    std::to_string(request.max_tokens()) + " tokens");
  }
};

class FormatScorer final : public Scorer {
 public:
  std::string_view name() const override { return "format"; }
  uint32_t version() const override { return 1; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence&) const override {
    const bool answered = request.end() == v1::EPISODE_END_SUBMITTED;
    return Part(*this, answered ? 1 : 0, answered ? "answered" : "no answer");
  }
};

}  // namespace

Result<std::unique_ptr<Scorer>> NewScorer(const ScorerSpec& spec) {
  std::unique_ptr<Scorer> scorer;
  if (spec.name == "tests") scorer = std::make_unique<TestsScorer>(spec.all_or_nothing);
  if (spec.name == "compiled") scorer = std::make_unique<CompiledScorer>();
  if (spec.name == "lint") scorer = std::make_unique<LintScorer>(spec.penalty);
  if (spec.name == "length") scorer = std::make_unique<LengthScorer>();
  if (spec.name == "format") scorer = std::make_unique<FormatScorer>();
  if (scorer == nullptr) {
    return Invalid("unknown scorer \"" + spec.name +
                   "\"; known are tests, compiled, lint, length, format");
  }
  return scorer;
}

}  // namespace tidemill
