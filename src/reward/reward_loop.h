// The reward loop scores finished episodes.
//
//   reward.score --lease--> what scorers need: tools.grade, tools.lint --> inbox, commands (port)
//                           judge.requests --> inbox
//                           --> scorers --> Verdict --> reply_to, then ack
//
// What scorers decide without executing anything is audited (reward/audit.h). Where a verifier is
// configured for it, gradings of training wait for a free box in the order of
// reward/grading_order.h.
//
// A failure of ours (a sandbox that could not start, a lost answer, a command that fails) is tried
// again and, in the end, a verdict without a score; it never becomes a reward of zero.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "reward/audit.h"
#include "reward/grading_order.h"
#include "reward/scorer_port.h"

namespace tidemill {

class Metrics;

struct WeightedScorer {
  std::unique_ptr<Scorer> scorer;
  double weight = 1;
  bool by_default = true;  // false: only for tasks whose own weights name it
};

struct RewardOptions {
  std::string worker = "local";
  uint32_t max_outstanding = 1024;  // episodes being scored at once
  uint32_t retries = 3;
  Duration retry_delay = milliseconds(200);
  Duration call_patience = std::chrono::minutes(5);
  Duration lease_period = std::chrono::seconds(10);
  double turn_weight = 0;       // of turn rewards: the gain in the share of visible tests passed
  double turn_discount = 1;     // of the reward, for every turn after the first
  bool all_or_nothing = false;  // of tests, where they decide instead of another scorer
  std::vector<RunConfig::JudgeKeys> judges;
  RunConfig::Audit audit;
  std::string order_by;       // the judge whose estimates order gradings; empty: none are held back
  uint32_t order_ahead = 16;  // gradings at the tools from which on others wait
  Duration order_wait = std::chrono::seconds(10);  // that a grading waits at most
  uint64_t seed = 1;                               // of what is audited
  Journal* journal = nullptr;                      // may be null; must outlive the loop
  Metrics* metrics = nullptr;                      // may be null; must outlive the loop
  std::string secret;  // of this worker: what tokens of its requests are made from
  MessageLimits limits;
};

// Read from any thread.
struct RewardCounters : CounterSet {
  Counter scored{*this,
                 {.key = "verdicts", .metric = "tidemill_scored_total", .help = "Verdicts given"}};
  Counter unscorable{*this,
                     {.key = "unscorable",
                      .metric = "tidemill_skipped_total",
                      .help = "Work abandoned after its retries",
                      .labels = {{"what", "score"}}}};
  Counter retries{*this,
                  {.key = "reward_retries",
                   .metric = "tidemill_retries_total",
                   .help = "Work retried after a system failure",
                   .labels = {{"what", "score"}}}};
  Counter second_looks{*this,
                       {.key = "second_looks",
                        .metric = "tidemill_second_looks_total",
                        .help = "Second reviews of low sub-scores"}};
  Counter repeated_literals{*this,
                            {.key = "repeated_literals",
                             .metric = "tidemill_repeated_literals_total",
                             .help = "Answers that hold the shown test's value"}};
  Counter proved{*this, Proofs("proved")};
  Counter refuted{*this, Proofs("refuted")};
  Counter undecided{*this, Proofs("unknown")};
  Counter proof_micros{*this,
                       {.key = "proof_micros",
                        .metric = "tidemill_proof_cpu_seconds_total",
                        .help = "CPU time of the built-in prover",
                        .scale = 1e-6}};
  Counter graded{*this,
                 {.key = "graded",
                  .metric = "tidemill_graded_total",
                  .help = "Answers run on their hidden tests for a reward"}};
  Counter graded_micros{*this,
                        {.key = "graded_micros",
                         .metric = "tidemill_graded_cpu_seconds_total",
                         .help = "CPU time of those answers in their boxes",
                         .scale = 1e-6}};
  Counter estimated{*this,
                    {.key = "gradings_estimated",
                     .metric = "tidemill_gradings_estimated_total",
                     .help = "Waiting gradings that a verifier said something about in time"}};
  Counter overdue{*this,
                  {.key = "gradings_overdue",
                   .metric = "tidemill_gradings_overdue_total",
                   .help = "Gradings sent because they had waited for reward.order_wait"}};
  Counter waiting{*this,
                  {.key = "gradings_waiting",
                   .metric = "tidemill_gradings_waiting",
                   .help = "Gradings held back, so that better ones go first",
                   .kind = Counter::Kind::kLevel}};
  Counter in_progress{*this,
                      {.key = "scoring_running",
                       .metric = "tidemill_scoring_running",
                       .help = "Episodes being scored",
                       .kind = Counter::Kind::kLevel}};

 private:
  static Counter::About Proofs(const std::string& verdict) {
    return {.key = "proofs_" + verdict,
            .metric = "tidemill_proofs_total",
            .help = "Answers the scorer proof looked at",
            .labels = {{"verdict", verdict}}};
  }
};

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
  std::vector<const CounterSet*> audit_counters() const;

 private:
  struct Run {
    Need need;
    uint32_t tries = 0;
  };
  struct Scoring {
    v1::ScoreRequest request;
    Time began{};
    ScoreEvidence evidence;
    std::map<std::string, Run> open;  // by Need::Key(): asked for, no answer yet
    uint32_t rounds = 0;              // how often scorers named what they need
  };
  // The subject of a question.
  struct Asked {
    uint64_t scoring;
    std::string run;
  };

  void TakeRequests(Time now);
  void TakeResults(Time now);
  void TakeAnswers(Time now);
  void TakeJudged(Time now);
  void SendDue(Time now);
  void GiveUpLost(Time now);
  void Advance(uint64_t key, Time now);
  void Ask(const Asked& asked, Time now);
  void AskTool(const Scoring& scoring, const Run& run, Asked asked, Time now);
  void AskJudge(const Scoring& scoring, const Run& run, const Asked& asked, Time now);
  const RunConfig::JudgeKeys& JudgeOf(const Need& need) const;
  void OnResult(const Asked& asked, v1::ToolResult result, Time now);
  void OnFailure(const Asked& asked, const std::string& cause, Time now);
  void CountProof(const ScorerDone& done);
  TaskSolved SolvedBy(const Scoring& scoring) const;
  // The scorer's weight in this task; nothing: it has no part in it.
  static std::optional<double> WeightOf(const WeightedScorer& weighted, const Scoring& scoring);
  v1::Verdict Judge(const Scoring& scoring) const;
  void SetSolved(const Scoring& scoring, v1::Verdict& verdict) const;
  Status AddTurnRewards(const Scoring& scoring, v1::Verdict& verdict) const;

  // reward_audit.cc: what is executed as well, and what follows from it.
  Audit* AuditOf(const Scorer& scorer);
  const Audit* AuditOf(const Scorer& scorer) const;
  void LearnVersions(const v1::ScoreRequest& request);
  // Whether execution decides instead of the scorer.
  bool Replaced(const Scorer& scorer) const;
  bool NeedsExecution(const Scorer& scorer, const Scoring& scoring) const;
  Result<v1::RewardPart> ScoreExecuted(const Scorer& scorer, const Scoring& scoring) const;
  void AddAudit(const Scorer& scorer, const Scoring& scoring, v1::RewardPart& part) const;
  void CountAudits(const Scoring& scoring);
  void RecordDisagreement(const Scorer& scorer, const Scoring& scoring,
                          const v1::ToolResult& grade);
  void Send(uint64_t key, v1::Verdict verdict);

  // reward_order.cc: which gradings go first.
  static GradingOrder::Answer AnswerOf(const v1::ScoreRequest& request);
  bool IsOrdered(const Scoring& scoring, const Run& run) const;
  // False: it is not a grading that waits for its turn.
  bool HoldBack(const Asked& asked, Time now);
  void SendOrdered(Time now);
  void AskEstimates(Time now);
  // False: it was another question. Null: the verifier gave no answer.
  bool OnEstimate(const Asked& asked, const v1::JudgeAnswer* answer);
  void NoteExecuted(const Scoring& scoring, const v1::ToolResult& grade);
  void ForgetOrder();

  Bus& bus_;
  const Clock& clock_;
  std::vector<WeightedScorer> scorers_;
  RewardOptions options_;
  Outbox outbox_;
  LeaseKeeper leases_;
  std::unordered_map<uint64_t, Scoring> scorings_;
  ScorerPort* port_;
  Questions<Asked> calls_;  // of tools
  Questions<Asked> judges_;
  std::vector<Audit> audits_;                       // of the scorers that are audited
  std::unordered_map<uint64_t, Asked> port_asked_;  // by the port's tag
  uint64_t next_tag_ = 1;
  LaterQueue<Asked> later_;
  uint64_t next_key_ = 1;
  GradingOrder order_;
  std::deque<uint64_t> unestimated_;  // scorings whose grading waits and that no verifier has seen
  size_t estimates_open_ = 0;         // questions to the verifier
  bool draining_ = false;
  static constexpr char kOrderQuestion[] = "order";  // names no need of a scorer
  static constexpr uint32_t kDisagreementsKept = 200;
  uint32_t disagreements_ = 0;
  RewardCounters counters_;
};

}  // namespace tidemill
