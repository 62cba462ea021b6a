// An external scorer that answers after a drawn time, fails at times, is away for a while, and
// comes back as another version of itself.
#pragma once

#include "reward/scorer_port.h"
#include "sim/sim_judge.h"
#include "sim/world.h"

namespace tidemill::sim {

struct ScorerFaults {
  double fail = 0.03;
  Time away_from = kNever, away_until = kNever;  // nothing can be reached in between
  Time rises_at = kNever;                        // from then on it is version 2
  bool failure_is_zero = false;                  // planted bug
};

class SimScorer final : public ScorerPort {
 public:
  SimScorer(World& world, ProcessId process, const ScorerFaults& faults, const JudgeFaults& judging)
      : world_(world),
        process_(process),
        faults_(faults),
        events_(100'000),
        judge_(world, process, judging) {}

  bool Knows(const std::string&) const override { return true; }
  void Submit(const std::string& command, std::string question, uint64_t tag) override;
  Mailbox<ScorerDone>& events() override { return events_; }
  SimJudge& judge() { return judge_; }

 private:
  World& world_;
  ProcessId process_;
  ScorerFaults faults_;
  Mailbox<ScorerDone> events_;
  SimJudge judge_;
};

}  // namespace tidemill::sim
