#include "reward/scorer.h"

#include <algorithm>

#include "reward/environment_scorer.h"
#include "reward/judge_scorer.h"
#include "reward/literal_scorer.h"
#include "reward/proof_scorer.h"
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

bool HasHiddenTests(const v1::ScoreRequest& request) {
  return request.grading().cases_size() > 0 ||
         request.grading().mode() == v1::Grading::MODE_COMMAND;
}

double TestsValue(const v1::ToolResult& grade, bool all_or_nothing) {
  const uint32_t passed = grade.tests_passed(), total = grade.tests_total();
  if (all_or_nothing) return total > 0 && passed == total ? 1 : 0;
  return total == 0 ? 0 : static_cast<double>(passed) / total;
}

namespace {

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
  uint32_t version() const override { return 1; }
  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const final {
    return NeedTool(tool_, Applies(request), evidence);
  }
  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence& evidence) const final {
    const v1::ToolResult* result = evidence.Tool(tool_);
    if (result == nullptr && !Applies(request)) return ScoreNothing();
    if (result == nullptr) return NoEvidence(tool_);
    return ScoreResult(*result);
  }

 protected:
  explicit ToolScorer(std::string tool) : tool_(std::move(tool)) {}
  // Whether there is something for the tool to look at.
  virtual bool Applies(const v1::ScoreRequest& request) const { return HasHiddenTests(request); }
  // Where there is not.
  virtual Result<v1::RewardPart> ScoreNothing() const { return NoEvidence(tool_); }
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
    return MakePart(*this, TestsValue(grade, all_or_nothing_),
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
  uint32_t version() const override { return 2; }

 private:
  bool Applies(const v1::ScoreRequest& request) const override { return request.files_size() > 0; }
  Result<v1::RewardPart> ScoreNothing() const override { return MakePart(*this, 0, "no files"); }
  v1::RewardPart ScoreResult(const v1::ToolResult& lint) const override {
    if (lint.outcome() != v1::OUTCOME_OK) return MakePart(*this, 0, "not linted to the end");
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
    std::vector<Need> needs = NeedTool("grade", HasHiddenTests(request), evidence);
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
    for (const auto& [role, score] : answer->by_role) {
      v1::RoleReward& own = *part.add_by_role();
      own.set_role(role), own.set_reward(score);
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

template <typename T>
Result<std::unique_ptr<Scorer>> Plain(const RewardConfig&) {
  return std::unique_ptr<Scorer>(std::make_unique<T>());
}

Result<std::unique_ptr<Scorer>> NewTestsScorer(const RewardConfig& reward) {
  return std::unique_ptr<Scorer>(std::make_unique<TestsScorer>(reward.all_or_nothing));
}

Result<std::unique_ptr<Scorer>> NewLintScorer(const RewardConfig& reward) {
  return std::unique_ptr<Scorer>(std::make_unique<LintScorer>(reward.lint_penalty));
}

Result<std::unique_ptr<Scorer>> NewCommandScorer(const RewardConfig& reward) {
  return std::unique_ptr<Scorer>(std::make_unique<CommandScorer>(reward.command_version));
}

constexpr ScorerRow kScorers[] = {
    {"tests", "Share of hidden tests passed, or all-or-nothing", NewTestsScorer},
    {"compiled", "1 if the answer builds", Plain<CompiledScorer>},
    {"lint", "1 minus a penalty per finding, at least 0", NewLintScorer},
    {"length", "1 minus the share of the allowed tokens used", Plain<LengthScorer>},
    {"format", "1 if no turn was malformed and an answer was given", Plain<FormatScorer>},
    {"literal", "1 if the answer repeats the value the shown test expects; with weight 0 a metric",
     Plain<LiteralScorer>},
    {"review",
     "Correctness, style, performance and security, with a second review of low sub-scores",
     NewReviewScorer},
    {"proof", "1 if proved equal to the task's specification, 0 if refuted, else as tests",
     NewProofScorer},
    {"judge", "What models say: of the answer as a value, of single turns as turn rewards",
     NewJudgeScorer},
    {"command", "The score of an external program", NewCommandScorer},
    {"environment", "What the episode's environment paid, its parts by their weights",
     NewEnvironmentScorer},
};

}  // namespace

std::span<const ScorerRow> Scorers() {
  return kScorers;
}

Result<std::unique_ptr<Scorer>> NewScorer(std::string_view name, const RewardConfig& reward) {
  std::string known;
  for (const ScorerRow& row : kScorers) {
    if (row.name == name) return row.make(reward);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Invalid("unknown scorer \"" + std::string(name) + "\"; known are " + known);
}

}  // namespace tidemill
