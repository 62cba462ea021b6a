// Scorers turn what an episode left behind into parts of its reward. A scorer is pure: it names the
// tool runs it needs (graded in a fresh box), then judges their results. What cannot be computed
// here (an external command) goes through a ScorerPort.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Results of the tool runs that the scorers asked for; null where none asked.
struct ScoreEvidence {
  const v1::ToolResult* grade = nullptr;
  const v1::ToolResult* lint = nullptr;
};

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual std::string_view name() const = 0;
  // Raised when the meaning of its value changes; old verdicts may be scored again then.
  virtual uint32_t version() const = 0;
  virtual bool NeedsGrade() const { return false; }
  virtual bool NeedsLint() const { return false; }
  // The value (usually 0..1) and a comment for people. kUnavailable: a failure of ours; never a
  // zero.
  virtual Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                                       const ScoreEvidence& evidence) const = 0;
};

// "tests": the share of hidden tests passed, or all-or-nothing. "compiled": 1 if it built. "lint":
// 1 less `penalty` for each finding, not below 0. "length": 1 - tokens / allowed. "format": 1 if no
// turn was malformed and an answer was given.
struct ScorerSpec {
  std::string name;
  double weight = 1;
  bool all_or_nothing = false;  // tests
  double penalty = 0.1;         // lint
};

// kInvalid: an unknown name, with those that are known.
Result<std::unique_ptr<Scorer>> NewScorer(const ScorerSpec& spec);

}  // namespace tidemill
