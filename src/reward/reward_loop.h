// The reward loop scores finished episodes.
//
//   reward.score --lease--> VerdictMaker::Needs --> Asking: tools.grade, tools.lint,
//   judge.requests, commands --> evidence --> VerdictMaker::Make --> Verdict --> reply_to, then ack
//
// Scores without execution are audited (ScorerAudits). Where a verifier is
// configured for it, gradings of training wait for a free box (HeldGradings).
//
// A failure of ours (a sandbox that could not start, a lost answer, a command that fails) is tried
// again and, in the end, a verdict without a score; it never becomes a reward of zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/loop.h"
#include "reward/asking.h"
#include "reward/held_gradings.h"
#include "reward/reward_counters.h"
#include "reward/reward_options.h"
#include "reward/scorer_audits.h"
#include "reward/verdict_maker.h"

namespace tidemill {

class RewardLoop final : public Loop {
 public:
  // `port` may be null where no scorer asks a command.
  RewardLoop(Bus& bus, const Clock& clock, std::vector<WeightedScorer> scorers,
             RewardOptions options, ScorerPort* port = nullptr);

  std::string_view name() const override { return "reward"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override;
  bool Drained() const override { return outbox_.waiting() == 0; }

  const RewardCounters& counters() const { return counters_; }
  // Of every scorer that is audited.
  std::vector<const CounterSet*> audit_counters() const { return audits_.counters(); }

 private:
  void TakeRequests(Time now);
  // Asks for what scorers still need; when they need nothing more, they judge.
  void Advance(uint64_t key, Time now);
  void Ask(const NeedOf& asked, Time now);
  void AskNow(const NeedOf& asked, Time now);
  void SendOrdered(Time now);
  void OnAnswer(Asking::Answer answer, Time now);
  void OnFailure(OpenScore& score, const NeedOf& asked, const std::string& cause, Time now);
  void Send(uint64_t key, v1::Verdict verdict);

  Bus& bus_;
  const Clock& clock_;
  const std::vector<WeightedScorer> scorers_;
  const RewardOptions options_;
  RewardCounters counters_;
  Outbox outbox_;
  LeaseKeeper leases_;
  OpenScores scores_;
  uint64_t next_key_ = 1;
  ScorerAudits audits_;
  const VerdictMaker verdicts_;
  Asking asking_;
  HeldGradings gradings_;
  LaterQueue<NeedOf> later_;
  bool draining_ = false;
};

}  // namespace tidemill
