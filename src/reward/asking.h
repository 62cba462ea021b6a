// What scorers need, asked for: tools (tools.grade, tools.lint) and judges over the bus, commands
// of a port. Answers come back under the name of what was asked.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bus/bus.h"
#include "bus/questions.h"
#include "reward/open_score.h"
#include "reward/reward_counters.h"
#include "reward/scorer_port.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class Asking {
 public:
  static constexpr size_t kNeedsMax = 24;  // open at once, of one episode

  struct Answer {
    NeedOf asked;
    Status status;  // not ok: a part of ours failed, or there was no answer in time
    std::variant<std::monostate, v1::ToolResult, v1::JudgeAnswer, CommandAnswer> content;
  };

  // `port` may be null where no scorer asks a command.
  Asking(Bus& bus, Outbox& outbox, const Clock& clock, const RewardOptions& options,
         ScorerPort* port, RewardCounters& counters);

  void Attach(Waker& waker);
  // Not ok: it can never be answered.
  Status Ask(const OpenScore& score, const NeedOf& asked, Time now);
  void AskJudge(v1::JudgeRequest question, const NeedOf& asked, Time now);
  std::vector<Answer> TakeAnswers();
  // Those that were lost.
  std::vector<Answer> TakeLost(Time now);
  const JudgeConfig& JudgeOf(const Need& need) const;

  size_t tools_open() const { return tools_.open(); }
  // Nothing that was asked is wanted any more.
  void Clear();

 private:
  void AskTool(const OpenScore& score, const OpenNeed& need, const NeedOf& asked, Time now);
  Status AskConfigured(const OpenScore& score, const OpenNeed& need, const NeedOf& asked, Time now);
  Status AskCommand(const OpenScore& score, const OpenNeed& need, const NeedOf& asked);
  void CountProof(const ScorerDone& done);

  Bus& bus_;
  const Clock& clock_;
  const RewardOptions& options_;
  ScorerPort* port_;
  RewardCounters& counters_;
  Questions<NeedOf> tools_;
  Questions<NeedOf> judges_;
  std::unordered_map<uint64_t, NeedOf> commands_;  // by the port's tag
  uint64_t next_tag_ = 1;
};

}  // namespace tidemill
