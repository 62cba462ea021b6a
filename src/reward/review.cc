#include "reward/review.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <unordered_map>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::array<std::string_view, 4> kAspects = {"correctness", "style", "performance",
                                                      "security"};
constexpr size_t kTasksRemembered = 65536;
constexpr double kLeastCpuMs = 1;  // below this a measurement says nothing

// Parts of the messages of gcc, clang and cppcheck, lower case.
constexpr std::string_view kSecurityWords[] = {"overflow",
                                               "out of bounds",
                                               "outside array bounds",
                                               "array-bounds",
                                               "buffer",
                                               "uninitialized",
                                               "null pointer",
                                               "use after free",
                                               "use-after-free",
                                               "dangling",
                                               "double free",
                                               "memory leak",
                                               "format string",
                                               "format-security",
                                               "not a string literal",
                                               "dangerous",
                                               "obsolete function",
                                               "stringop",
                                               "strcpy",
                                               "sprintf",
                                               "\"gets\"",
                                               "'gets'",
                                               "system(",
                                               "race",
                                               "unsafe",
                                               "injection",
                                               "bounds of"};

struct Findings {
  int count = 0;
  std::string first;
};

Findings Count(const v1::ToolResult* result, bool security) {
  Findings findings;
  if (result == nullptr) return findings;
  for (const v1::Diagnostic& finding : result->diagnostics()) {
    if (finding.severity() == "note" || IsSecurityFinding(finding) != security) continue;
    if (findings.count++ == 0) findings.first = Beginning(finding.message(), 120);
  }
  return findings;
}

std::string Describe(const Findings& findings) {
  if (findings.count == 0) return "no findings";
  return fmt::format("{} {}, the first: {}", findings.count,
                     findings.count == 1 ? "finding" : "findings", findings.first);
}

class ReviewScorer final : public Scorer {
 public:
  explicit ReviewScorer(const RewardConfig& reward) : reward_(reward) {}
  std::string_view name() const override { return "review"; }
  uint32_t version() const override { return 2; }

  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const override {
    std::vector<Need> needs;
    const auto tool = [&](const char* name, uint32_t look) {
      const Need need{.kind = Need::Kind::kTool, .name = name, .look = look};
      if (!evidence.Has(need)) needs.push_back(need);
    };
    if (HasHiddenTests(request)) tool("grade", 1);
    if (request.files_size() > 0) tool("lint", 1);
    if (!needs.empty()) return needs;
    const Need judge{.kind = Need::Kind::kCommand, .name = "judge"};
    if (!reward_.review_judge.empty() && !evidence.Has(judge)) return {judge};
    // The second look.
    Need again{.kind = Need::Kind::kCommand, .name = "judge", .look = 2};
    for (const std::string& low : Low(request, evidence)) {
      if (Judged(low, evidence))
        again.focus.push_back(low);
      else if (low == "correctness" || low == "performance")
        tool("grade", 2);
      else
        tool("compile", 2);
    }
    if (!again.focus.empty() && !evidence.Has(again)) needs.push_back(again);
    return needs;
  }

  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence& evidence) const override {
    v1::RewardPart part = MakePart(*this, 0, "");
    double sum = 0, weights = 0;
    std::string comment;
    for (std::string_view aspect : kAspects) {
      const auto weight = reward_.review_weights.find(std::string(aspect));
      if (weight == reward_.review_weights.end() || weight->second == 0) continue;
      TM_ASSIGN_OR_RETURN(v1::SubScore sub, Judge(aspect, request, evidence));
      sum += weight->second * sub.value();
      weights += weight->second;
      comment += fmt::format("{}{} {:.2f} ({})", comment.empty() ? "" : "; ", aspect, sub.value(),
                             sub.comment());
      *part.add_sub_scores() = std::move(sub);
    }
    part.set_value(sum / weights);
    part.set_comment(comment);
    for (const char* key : {"judge#2", "judge"}) {
      const CommandAnswer* answer = evidence.Answer(key);
      if (answer == nullptr || answer->version == 0) continue;
      part.set_scorer_version(answer->version);
      break;
    }
    Remember(request, evidence);
    return part;
  }

 private:
  struct Look {
    double value = 0;
    std::string comment;
  };

  // Whether the external judge gave this sub-score.
  static bool Judged(const std::string& aspect, const ScoreEvidence& evidence) {
    const CommandAnswer* answer = evidence.Answer("judge");
    return answer != nullptr && answer->parts.count(aspect) != 0;
  }

  // The sub-scores whose first look was below the threshold.
  std::vector<std::string> Low(const v1::ScoreRequest& request,
                               const ScoreEvidence& evidence) const {
    std::vector<std::string> low;
    for (const auto& [aspect, weight] : reward_.review_weights) {
      if (weight == 0) continue;
      const std::optional<Look> look = See(aspect, 1, request, evidence);
      if (look && look->value < reward_.review_threshold) low.push_back(aspect);
    }
    return low;
  }

  // One look at one aspect; nothing where there is no evidence for it.
  std::optional<Look> See(const std::string& aspect, uint32_t look, const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const {
    if (Judged(aspect, evidence)) {
      const CommandAnswer* answer = evidence.Answer(look == 1 ? "judge" : "judge#2");
      if (answer == nullptr) return {};
      auto part = answer->parts.find(aspect);
      if (part == answer->parts.end()) return {};
      return Look{part->second.score, part->second.comment};
    }
    if (aspect == "correctness" || aspect == "performance") {
      const v1::ToolResult* grade = evidence.Tool(look == 1 ? "grade" : "grade#2");
      if (grade == nullptr) return {};
      return aspect == "correctness" ? SeeTests(*grade) : SeeTime(*grade, request);
    }
    const v1::ToolResult* remarks = evidence.Tool(look == 1 ? "lint" : "compile#2");
    if (remarks == nullptr) {
      if (look == 1 && request.files_size() == 0) return Look{0, "no files"};
      return {};
    }
    // A tool that did not get to the end has seen nothing, which is no praise.
    if (remarks->outcome() != v1::OUTCOME_OK) return Look{0, "not checked to the end"};
    const Findings findings = Count(remarks, aspect == "security");
    return Look{std::max(0.0, 1 - reward_.lint_penalty * findings.count), Describe(findings)};
  }

  static Look SeeTests(const v1::ToolResult& grade) {
    const double total = std::max<double>(1, grade.tests_total());
    return {grade.tests_passed() / total,
            fmt::format("{} of {} tests", grade.tests_passed(), grade.tests_total())};
  }

  Look SeeTime(const v1::ToolResult& grade, const v1::ScoreRequest& request) const {
    if (!grade.compiled() || grade.tests_passed() == 0) return {0, "the tests did not run"};
    const double mine = std::max(kLeastCpuMs, grade.cpu_ms());
    double reference = reward_.review_cpu_ms;
    if (reference == 0) {
      auto best = fastest_ms_.find(request.id().task());
      reference = best == fastest_ms_.end() ? mine : best->second;
    }
    return {std::min(1.0, reference / mine),
            fmt::format("{:.0f} ms of CPU, the reference is {:.0f}", mine, reference)};
  }

  Result<v1::SubScore> Judge(std::string_view aspect, const v1::ScoreRequest& request,
                             const ScoreEvidence& evidence) const {
    const std::string name(aspect);
    const std::optional<Look> first = See(name, 1, request, evidence);
    if (!first) return Unavailable("no data for " + name + " by");
    v1::SubScore sub;
    sub.set_name(name);
    sub.set_value(first->value);
    sub.set_comment(first->comment);
    sub.set_looks(1);
    const std::optional<Look> second =
        first->value < reward_.review_threshold ? See(name, 2, request, evidence) : std::nullopt;
    if (!second) return sub;
    sub.set_looks(2);
    sub.set_comment(fmt::format("{}; second review: {}", first->comment, second->comment));
    if (Judged(name, evidence))
      sub.set_value(second->value);  // it knew what it had said before
    else if (name == "performance")
      sub.set_value(std::max(first->value, second->value));
    else
      sub.set_value((first->value + second->value) / 2);
    return sub;
  }

  // The fastest right answer to a task is what later ones are measured by.
  void Remember(const v1::ScoreRequest& request, const ScoreEvidence& evidence) const {
    const v1::ToolResult* grade = evidence.Tool("grade");
    if (grade == nullptr || grade->tests_total() == 0) return;
    if (grade->tests_passed() < grade->tests_total()) return;
    const double mine = std::max(kLeastCpuMs, grade->cpu_ms());
    if (fastest_ms_.size() >= kTasksRemembered) fastest_ms_.clear();
    auto [best, first] = fastest_ms_.try_emplace(request.id().task(), mine);
    best->second = std::min(best->second, mine);
  }

  const RewardConfig reward_;
  mutable std::unordered_map<std::string, double> fastest_ms_;  // by task; used by one loop
};

}  // namespace

bool IsSecurityFinding(const v1::Diagnostic& finding) {
  std::string message = finding.message();
  for (char& c : message) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(
      std::begin(kSecurityWords), std::end(kSecurityWords),
      [&](std::string_view word) { return message.find(word) != std::string::npos; });
}

Result<std::unique_ptr<Scorer>> NewReviewScorer(const RewardConfig& reward) {
  double sum = 0;
  for (const auto& [name, weight] : reward.review_weights) {
    if (std::find(kAspects.begin(), kAspects.end(), name) == kAspects.end()) {
      return Invalid("a review has no sub-score \"" + name +
                     "\"; it has correctness, style, performance, security");
    }
    if (!(weight >= 0)) {
      return Invalid("the weight of " + name + " in a review must be at least 0, got " +
                     std::to_string(weight));
    }
    sum += weight;
  }
  if (!(sum > 0)) return Invalid("a review needs a sub-score with a weight above 0");
  return std::unique_ptr<Scorer>(std::make_unique<ReviewScorer>(reward));
}

}  // namespace tidemill
