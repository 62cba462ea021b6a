#include "reward/scorer.h"

#include <algorithm>

#include "reward/literal_scorer.h"
#include "reward/review.h"

namespace tidemill {

v1::RewardPart MakePart(const Scorer& scorer, double value, std::string comment) {
  v1::RewardPart part;
  part.set_scorer(std::string(scorer.name()));
  part.set_scorer_version(scorer.version());
  part.set_value(value);
  part.set_comment(std::move(comment));
  return part;
}

namespace {

bool HasCases(const v1::ScoreRequest& request) {
  return request.has_grading() && request.grading().cases_size() > 0;
}

std::vector<Need> NeedTool(const std::string& name, bool possible, const ScoreEvidence& evidence) {
  if (!possible || evidence.Tool(name) != nullptr) return {};
  return {Need{.kind = Need::Kind::kTool, .name = name}};
}

Status NoEvidence(std::string_view what) {
  return Unavailable("no result of " + std::string(what));
}

// Scores by what one tool said of the submission.
class ToolScorer : public Scorer {
 public:
  uint32_t version() const final { return 1; }
  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const final {
    return NeedTool(tool_, Applies(request), evidence);
  }
  Result<v1::RewardPart> Score(const v1::ScoreRequest&, const ScoreEvidence& evidence) const final {
    const v1::ToolResult* result = evidence.Tool(tool_);
    if (result == nullptr) return NoEvidence(tool_);
    return ScoreResult(*result);
  }

 protected:
  explicit ToolScorer(std::string tool) : tool_(std::move(tool)) {}
  // Whether there is something for the tool to look at.
  virtual bool Applies(const v1::ScoreRequest& request) const { return HasCases(request); }
  virtual v1::RewardPart ScoreResult(const v1::ToolResult& result) const = 0;

 private:
  const std::string tool_;
};

class TestsScorer final : public ToolScorer {
 public:
  explicit TestsScorer(bool all_or_nothing)
      : ToolScorer("grade"), all_or_nothing_(all_or_nothing) {}
  std::string_view name() const override { return "tests"; }

 private:
  v1::RewardPart ScoreResult(const v1::ToolResult& grade) const override {
    const uint32_t passed = grade.tests_passed(), total = grade.tests_total();
    double value = total == 0 ? 0 : static_cast<double>(passed) / total;
    if (all_or_nothing_) value = total > 0 && passed == total ? 1 : 0;
    return MakePart(*this, value,
                    std::to_string(passed) + " of " + std::to_string(total) + " tests");
  }
  bool all_or_nothing_;
};

class CompiledScorer final : public ToolScorer {
 public:
  CompiledScorer() : ToolScorer("grade") {}
  std::string_view name() const override { return "compiled"; }

 private:
  v1::RewardPart ScoreResult(const v1::ToolResult& grade) const override {
    const bool compiled = grade.compiled();
    return MakePart(*this, compiled ? 1 : 0, compiled ? "it builds" : "it does not build");
  }
};

class LintScorer final : public ToolScorer {
 public:
  explicit LintScorer(double penalty) : ToolScorer("lint"), penalty_(penalty) {}
  std::string_view name() const override { return "lint"; }

 private:
  bool Applies(const v1::ScoreRequest& request) const override { return request.files_size() > 0; }
  v1::RewardPart ScoreResult(const v1::ToolResult& lint) const override {
    const int findings = lint.diagnostics_size();
    return MakePart(*this, std::max(0.0, 1.0 - penalty_ * findings),
                    std::to_string(findings) + (findings == 1 ? " finding" : " findings"));
  }
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
    return MakePart(*this, 1.0 - share,
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
    return MakePart(*this, answered ? 1 : 0, answered ? "answered" : "no answer");
  }
};

class LiteralScorer final : public Scorer {
 public:
  std::string_view name() const override { return "literal"; }
  uint32_t version() const override { return 1; }
  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence&) const override {
    const bool repeats = RepeatsShownLiteral(request.prompt(), request.submission());
    return MakePart(*this, repeats ? 1 : 0,
                    repeats ? "holds the shown test's value" : "does not hold the shown value");
  }
};

class CommandScorer final : public Scorer {
 public:
  explicit CommandScorer(uint32_t version) : version_(version) {}
  std::string_view name() const override { return "command"; }
  uint32_t version() const override { return version_; }
  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const override {
    std::vector<Need> needs = NeedTool("grade", HasCases(request), evidence);
    // It gets to read what the hidden tests said.
    if (needs.empty() && evidence.Answer("command") == nullptr)
      needs.push_back({.kind = Need::Kind::kCommand, .name = "command"});
    return needs;
  }
  Result<v1::RewardPart> Score(const v1::ScoreRequest&,
                               const ScoreEvidence& evidence) const override {
    const CommandAnswer* answer = evidence.Answer("command");
    if (answer == nullptr) return NoEvidence("the command");
    if (!answer->has_score) return Unavailable("its answer has no \"score\"");
    v1::RewardPart part = MakePart(*this, answer->score, answer->comment);
    if (answer->version > 0) part.set_scorer_version(answer->version);
    for (const auto& [name, sub] : answer->parts) {
      v1::SubScore& stored = *part.add_sub_scores();
      stored.set_name(name), stored.set_value(sub.score), stored.set_comment(sub.comment);
      stored.set_looks(1);
    }
    return part;
  }
  std::vector<double> TurnRewards(const ScoreEvidence& evidence) const override {
    const CommandAnswer* answer = evidence.Answer("command");
    return answer == nullptr ? std::vector<double>{} : answer->turn_rewards;
  }

 private:
  uint32_t version_;
};

}  // namespace

Result<std::unique_ptr<Scorer>> NewScorer(const ScorerSpec& spec) {
  std::unique_ptr<Scorer> scorer;
  if (spec.name == "tests") scorer = std::make_unique<TestsScorer>(spec.all_or_nothing);
  if (spec.name == "compiled") scorer = std::make_unique<CompiledScorer>();
  if (spec.name == "lint") scorer = std::make_unique<LintScorer>(spec.penalty);
  if (spec.name == "length") scorer = std::make_unique<LengthScorer>();
  if (spec.name == "format") scorer = std::make_unique<FormatScorer>();
  if (spec.name == "literal") scorer = std::make_unique<LiteralScorer>();
  if (spec.name == "command") scorer = std::make_unique<CommandScorer>(spec.version);
  if (spec.name == "review") return NewReviewScorer(spec);
  if (scorer == nullptr) {
    return Invalid("unknown scorer \"" + spec.name +
                   "\"; known are tests, compiled, lint, length, format, literal, review, command");
  }
  return scorer;
}

}  // namespace tidemill
