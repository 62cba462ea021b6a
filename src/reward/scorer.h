// Scorers turn what an episode left behind into parts of its reward. A scorer is pure: it says what
// it still needs to know (tool runs in fresh boxes, answers of an external command), and when it
// has all of that, it judges. The reward loop fetches what is needed and keeps count of failures.
//
//   Needs(evidence so far) -> tools, ScorerPort -> evidence -> Needs .. nothing more -> Score
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// One thing a scorer has to know. `look` 2 is a closer look at what was low at first: tools get
// twice the time, a command is told what to look at.
struct Need {
  enum class Kind : uint8_t { kTool, kCommand };
  Kind kind = Kind::kTool;
  std::string name;  // "grade", "lint", "compile"; or the command's
  uint32_t look = 1;
  std::vector<std::string> focus = {};  // of a command's second look: what was low

  std::string Key() const { return look == 1 ? name : name + "#" + std::to_string(look); }
};

// What an external command said.
struct CommandAnswer {
  struct Part {
    double score = 0;
    std::string comment;
  };
  bool has_score = false;
  double score = 0;
  std::string comment;
  uint32_t version = 0;               // 0: not said
  std::map<std::string, Part> parts;  // "style", ..
  std::vector<double> turn_rewards;   // one for each turn, or none
};

// What is known so far, by Need::Key().
struct ScoreEvidence {
  std::map<std::string, v1::ToolResult> tools;
  std::map<std::string, CommandAnswer> answers;

  const v1::ToolResult* Tool(const std::string& key) const {
    auto it = tools.find(key);
    return it == tools.end() ? nullptr : &it->second;
  }
  const CommandAnswer* Answer(const std::string& key) const {
    auto it = answers.find(key);
    return it == answers.end() ? nullptr : &it->second;
  }
  bool Has(const Need& need) const {
    return need.kind == Need::Kind::kTool ? tools.count(need.Key()) != 0
                                          : answers.count(need.Key()) != 0;
  }
};

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual std::string_view name() const = 0;
  // Raised when the meaning of its value changes; old verdicts may be scored again then.
  virtual uint32_t version() const = 0;
  // What it has to know besides the evidence there is; empty: it can judge. Asks twice at most.
  virtual std::vector<Need> Needs(const v1::ScoreRequest&, const ScoreEvidence&) const {
    return {};
  }
  // The value (usually 0..1) and a comment for people. kUnavailable: a failure of ours; never a
  // zero.
  virtual Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                                       const ScoreEvidence& evidence) const = 0;
  // Rewards of single turns, one for each, or none.
  virtual std::vector<double> TurnRewards(const ScoreEvidence&) const { return {}; }
};

// "tests": the share of hidden tests passed, or all-or-nothing. "compiled": 1 if it built. "lint":
// 1 less `penalty` for each finding, not below 0. "length": 1 - tokens / allowed. "format": 1 if no
// turn was malformed and an answer was given. "literal": 1 if the answer repeats the value the
// shown test expects (reward/literal_scorer.h); with the weight 0 it is a metric. "review":
// reward/review.h. "command": what the external command of that name says.
struct ScorerSpec {
  std::string name;
  double weight = 1;
  bool all_or_nothing = false;  // tests
  double penalty = 0.1;         // lint, and the findings of a review
  uint32_t version = 1;         // command: until an answer says another
  // review
  std::map<std::string, double> review_weights = {
      {"correctness", 0.4}, {"style", 0.2}, {"performance", 0.2}, {"security", 0.2}};
  double review_threshold = 0.5;  // a sub-score below is looked at again
  double review_cpu_ms = 0;       // CPU time worth a full performance score; 0: the best seen
  bool review_judge = false;      // ask the external command "judge"
};

// kInvalid: an unknown name, with those that are known.
Result<std::unique_ptr<Scorer>> NewScorer(const ScorerSpec& spec);

// A part as this scorer gives it.
v1::RewardPart MakePart(const Scorer& scorer, double value, std::string comment);

}  // namespace tidemill
