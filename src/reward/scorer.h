// Scorers turn what an episode left behind into parts of its reward. A scorer is pure: it says what
// it still needs to know (tool runs in fresh boxes, answers of an external command or of a judge),
// and when it has all of that, it judges. The reward loop fetches what is needed and keeps count of
// failures.
//
//   Needs(evidence so far) -> tools, ScorerPort -> evidence -> Needs .. nothing more -> Score
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "reward/reward_config.h"

namespace tidemill {

// One thing a scorer has to know. `look` 2 is a closer look at what was low at first: tools get
// twice the time, a command is told what to look at.
struct Need {
  enum class Kind : uint8_t { kTool, kCommand, kJudge };
  Kind kind = Kind::kTool;
  std::string name;  // "grade", "lint", "compile"; or the command's, or the judge's
  uint32_t look = 1;
  std::vector<std::string> focus = {};  // of a command's second look: what was low

  std::string Key() const { return look == 1 ? name : name + "#" + std::to_string(look); }
};

// The answer of an external command.
struct CommandAnswer {
  struct Part {
    double score = 0;
    std::string comment;
  };
  bool has_score = false;
  double score = 0;
  std::string comment;
  uint32_t version = 0;                   // 0: not said
  std::map<std::string, Part> parts;      // "style", ..
  std::vector<double> turn_rewards;       // one for each turn, or none
  std::map<std::string, double> by_role;  // instead of the score, of roles of the episode
};

// The evidence so far, by Need::Key().
struct ScoreEvidence {
  std::map<std::string, v1::ToolResult> tools;
  std::map<std::string, CommandAnswer> answers;
  std::map<std::string, v1::JudgeAnswer> judged;  // by the judge's name

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

// A scorer's opinion of a task without running its hidden tests.
enum class TaskSolved : uint8_t { kNotKnown, kAskLater, kNo, kYes };

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual std::string_view name() const = 0;
  // Raised when the meaning of its value changes; old verdicts may be scored again then.
  virtual uint32_t version() const = 0;
  // What it has to know besides the evidence there is; empty: it can judge. The reward loop asks
  // kRoundsMax times at most.
  virtual std::vector<Need> Needs(const v1::ScoreRequest&, const ScoreEvidence&) const {
    return {};
  }
  // The value (usually 0..1) and a comment for people. kUnavailable: a failure of ours; never a
  // zero.
  virtual Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                                       const ScoreEvidence& evidence) const = 0;
  // kAskLater: what it asked for may tell. In training the hidden tests are run only where no
  // scorer knows, or one of them needs their result.
  virtual TaskSolved Solved(const v1::ScoreRequest&, const ScoreEvidence&) const {
    return TaskSolved::kNotKnown;
  }
  // Rewards of single turns, one for each, or none.
  virtual std::vector<double> TurnRewards(const ScoreEvidence&) const { return {}; }
  // Whether what Solved says is a claim that only execution could confirm: it is audited
  // (reward/audit.h).
  virtual bool IsAudited() const { return false; }
};

// A scorer that reward.weights may name. A new one is a file with its class and its row here.
struct ScorerRow {
  std::string_view name;
  std::string_view help;  // one line for people
  Result<std::unique_ptr<Scorer>> (*make)(const RewardConfig& reward);
};
std::span<const ScorerRow> Scorers();

// kInvalid: an unknown name, with those that are known, or settings that do not go together.
Result<std::unique_ptr<Scorer>> NewScorer(std::string_view name, const RewardConfig& reward);

// The value of hidden tests: the share that passed, or whether all did.
double TestsValue(const v1::ToolResult& grade, bool all_or_nothing);

// Whether the task has hidden tests: cases, or a command.
bool HasHiddenTests(const v1::ScoreRequest& request);

// A part as this scorer gives it.
v1::RewardPart MakePart(const Scorer& scorer, double value, std::string comment);

}  // namespace tidemill
