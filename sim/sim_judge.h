// A judge's model that answers after a drawn time, fails at times, talks nonsense at others, and is
// away for a while.
#pragma once

#include "judge/judge_port.h"
#include "sim/world.h"

namespace tidemill::sim {

struct JudgeFaults {
  double fail = 0.05;
  double malformed = 0.02;                       // answers that do not parse
  Time away_from = kNever, away_until = kNever;  // nothing can be reached in between
  bool failure_is_zero = false;                  // planted bug
};

// Its config: three votes, of which one may fail, on an outcome or on which of two members of a
// group is better.
JudgeConfig SimJudgeKeys(bool compares);

class SimJudge final : public JudgePort {
 public:
  SimJudge(World& world, ProcessId process, const JudgeFaults& faults)
      : world_(world), process_(process), faults_(faults), events_(100'000) {}

  void Submit(JudgeCall call) override;
  Mailbox<JudgeDone>& events() override { return events_; }

 private:
  World& world_;
  ProcessId process_;
  JudgeFaults faults_;
  Mailbox<JudgeDone> events_;
};

}  // namespace tidemill::sim
