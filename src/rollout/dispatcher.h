// The dispatcher decides which task is attempted when: it issues groups while the gate has room,
// hears what became of them, and runs the evaluations.
//
//   tasks --order--> group --ledger (durable)--> rollout.groups        dispatch.reports --> credits
//
// It never issues a group before the ledger holds it, so that a resumed run knows what is
// outstanding.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "core/policy_names.h"
#include "core/topics.h"
#include "core/version_events.h"
#include "proto/tidemill.pb.h"
#include "rollout/admission_gate.h"
#include "rollout/policy_orders.h"
#include "rollout/rollout_config.h"
#include "rollout/task_difficulty.h"
#include "store/store_port.h"

namespace tidemill {

// A policy whose groups are issued: each has a gate of its own, and attempts tasks of its own.
struct DispatchedPolicy {
  PolicyId id = PolicyId::kMain;
  GateOptions gate{};
  uint64_t steps_done = 0;  // its own, when resumed
  uint64_t max_steps = 0;   // it takes no more of its own; 0: the learner says when it is over
};

struct EvalPlan {
  std::string name;  // "before", "step-50"
  v1::Sampling sampling;
  uint32_t samples = 1;  // episodes a task
  uint32_t max_turns = 1;
  PolicyId policy = PolicyId::kMain;
};

struct DispatcherOptions : RolloutConfig {
  PolicyNames policies;
  std::vector<DispatchedPolicy> trained;  // in the order in which their groups are issued
  uint64_t seed = 1;
  double difficulty_floor = 1;        // of TaskDifficulty; 1: every task is issued in its turn
  v1::Sampling sampling;              // of training episodes
  uint32_t max_context_tokens = 0;    // 0: the engine's
  std::vector<EvalPlan> eval_before;  // run before the first group of training
  std::vector<EvalPlan> eval_after;   // run when the learner took its last step
  std::vector<EvalPlan>
      eval_during;  // run every eval_every_steps of the policy; "-step-N" is put behind each name
  uint64_t eval_every_steps = 0;  // 0: never
  uint32_t eval_in_flight = 512;  // episodes of evaluations running at once
  // How often in a row a task whose group was dropped through us is attempted again at once. One
  // that fails us every time then waits for its next turn, or it would crowd out all others.
  uint32_t reissues_max = 2;
  bool train = true;  // false: only the evaluations of eval_before
  // Episodes are of a team: each group is for all of `trained`, and issued where all have room.
  bool team = false;
  // Where groups are sent: to rollout, or to memory, which passes them on.
  std::string groups_topic = std::string(kGroupsTopic);
  std::string secret;  // of the run: what tokens of leases are made from
  MessageLimits limits;
  VersionListeners listeners;  // of evaluations; must outlive the loop
  // A group without a report for this long is put on the bus again: whoever held it may have
  // acknowledged it and sent nothing that could be used. What is there already counts once.
  Duration group_patience = std::chrono::hours(1);
  // Read back when a run is resumed.
  uint64_t next_group = 1;
  uint64_t other_steps_done = 0;            // of policies that are not trained any more
  std::vector<v1::GroupLease> outstanding;  // issued, no final report: issued again
  // Accepted, not used yet, and whose.
  std::vector<std::pair<PolicyId, v1::GroupReport>> in_replay;
  // Tasks whose group was dropped and that are to be tried again, and by whom.
  std::vector<std::pair<PolicyId, std::string>> reissue;
};

struct EvalTally {
  uint32_t tasks = 0;
  uint32_t episodes = 0;
  uint32_t scored = 0;
  uint32_t solved = 0;
  double reward_sum = 0;
  uint32_t rated = 0;   // tasks with a sample that was scored
  double rate_sum = 0;  // over them, of the share of its samples that was solved
};

// How the dispatcher is doing, for people; read from any thread.
struct DispatcherCounters : CounterSet {
  Counter groups_issued{
      *this,
      {.key = "groups_issued", .metric = "tidemill_groups_issued_total", .help = "Groups issued"}};
  Counter groups_dropped{*this,
                         {.key = "groups_dropped",
                          .metric = "tidemill_groups_dropped_total",
                          .help = "Groups dropped with their credit returned"}};
  Counter passed_over{*this,
                      {.key = "passed_over",
                       .metric = "tidemill_tasks_passed_over_total",
                       .help = "Task draws skipped because of the task's pass rate"}};
  Counter put_off{*this,
                  {.key = "put_off",
                   .metric = "tidemill_tasks_put_off_total",
                   .help = "Tasks postponed because their groups failed too often in a row"}};
  Counter sent_again{*this,
                     {.key = "groups_sent_again",
                      .metric = "tidemill_groups_sent_again_total",
                      .help = "Groups issued again because no report came in time"}};
  Counter siblings{*this,
                   {.key = "sibling_groups",
                    .metric = "tidemill_sibling_groups_total",
                    .help = "Groups issued to compare a session of the gateway with"}};
  Counter running{*this,
                  {.key = "gate_running",
                   .metric = "tidemill_gate_running",
                   .help = "Episodes issued and not yet reported",
                   .kind = Counter::Kind::kLevel}};
  Counter accepted{*this,
                   {.key = "gate_accepted",
                    .metric = "tidemill_gate_accepted",
                    .help = "Episodes accepted since the start",
                    .kind = Counter::Kind::kLevel}};
  Counter evaluating{*this,
                     {.key = "evaluating",
                      .metric = "tidemill_evaluating_episodes",
                      .help = "Evaluation episodes in progress",
                      .kind = Counter::Kind::kLevel}};
  Counter epoch{*this,
                {.key = "epoch",
                 .metric = "",
                 .help = "Passes over the training tasks",
                 .kind = Counter::Kind::kLevel}};
  std::atomic<bool> done{false};  // evaluations after the last step are in
};

class Dispatcher final : public Loop {
 public:
  // `train` and `eval` are borrowed and must outlive it.
  Dispatcher(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
             const std::vector<v1::Task>& train, const std::vector<v1::Task>& eval,
             PolicyOrders order, DispatcherOptions options);

  std::string_view name() const override { return "dispatcher"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override { draining_ = true; }
  bool Drained() const override { return outbox_.waiting() == 0; }

  // Any thread: from now on no group is issued, of training or evaluation; reports are still heard.
  void IssueNoMore() { issue_no_more_ = true; }

  const DispatcherCounters& counters() const { return counters_; }
  const AdmissionGate& gate(PolicyId policy) const { return lines_.at(policy).gate; }

 private:
  enum class GroupState { kRunning, kAccepted, kDropped };
  struct Group {
    std::map<PolicyId, GroupState> shares{};  // of those that are to learn from it
    uint32_t revision = 0;
    uint32_t members = 0;
    size_t task = 0;
    std::string eval{};                 // name of the evaluation; empty: training
    std::string token{};                // of its lease
    uint64_t session = 0;               // whose siblings they are; 0: of none
    PolicyId policy = PolicyId::kMain;  // whose task it is

    bool running() const {
      return std::any_of(shares.begin(), shares.end(),
                         [](const auto& one) { return one.second == GroupState::kRunning; });
    }
  };
  // A policy that is trained.
  struct Line {
    Line(const DispatchedPolicy& policy, TaskDifficulty known)
        : gate(policy.gate), max_steps(policy.max_steps), difficulty(known) {}
    // The learner says that it is over when every policy has taken its last step.
    bool over() const {
      return last_step || (max_steps > 0 && gate.steps() >= static_cast<int64_t>(max_steps));
    }
    AdmissionGate gate;
    const uint64_t max_steps;
    TaskDifficulty difficulty;
    std::deque<size_t> reissue{};  // tasks to attempt again first
    bool last_step = false;
  };
  // A session of the gateway that is to be compared with attempts at its task.
  struct Wanted {
    size_t task = 0;
    uint64_t session = 0;
  };
  struct SentGroup {
    v1::GroupLease lease;
    Time again_at;
  };
  struct Eval {
    EvalPlan plan{};
    uint64_t step = 0;      // the run's when it began
    uint64_t own_step = 0;  // the policy's
    uint64_t number = 0;    // in the ledger; known once its first group is issued
    size_t next_task = 0;
    size_t finished_tasks = 0;
    EvalTally result{};
    bool first = false;  // of the plans of its evaluation: others decide by it
  };

  void TakeReports();
  void TakeGivenUp();
  void TakeWanted();
  void TellSession(uint64_t session, uint32_t scored, double reward_sum);
  void SendAgain(Time now);
  void OnGroupReport(const v1::GroupReport& report);
  v1::PolicyCredit CreditOf(const v1::GroupReport& report, PolicyId policy) const;
  void TakeShares(Group& group, const v1::GroupReport& report);
  void ResumeInReplay(PolicyId policy, const v1::GroupReport& report);
  std::map<PolicyId, GroupState> SharesOf(PolicyId policy) const;
  void Reissue(const Group& group);
  void OnEvalReport(Group& group, const v1::GroupReport& report);
  void RecordEval(const std::string& name, const Eval& eval);
  void OnStep(const v1::StepDone& step);
  void TakeStored();
  void IssueTraining();
  bool IssueForTeam();
  bool IssueTraining(PolicyId policy, Line& line);
  void IssueWanted();
  void IssueTask(size_t task, PolicyId policy, uint64_t session);
  int64_t Running() const;
  int64_t Accepted() const;
  uint64_t RunSteps() const;
  Line& LineOf(const Group& group) { return lines_.at(group.policy); }
  size_t NextTask(PolicyId policy, Line& line);
  void IssueEvals();
  void Issue(v1::GroupLease lease, Group group, std::optional<GroupEvaluation> evaluation);
  void Send(v1::GroupLease lease);
  v1::GroupLease MakeLease(const v1::Task& task, uint32_t members, const v1::Sampling& sampling,
                           uint32_t max_turns, PolicyId policy);
  void StartEvals(const std::vector<EvalPlan>& plans, const std::string& suffix,
                  std::optional<PolicyId> only = {});
  bool Training() const;

  Bus& bus_;
  StorePort& store_;
  const Clock& clock_;
  Journal& journal_;
  const std::vector<v1::Task>& train_;
  const std::vector<v1::Task>& eval_;
  PolicyOrders order_;
  DispatcherOptions options_;
  std::map<PolicyId, Line> lines_;             // of those that are trained
  std::map<std::string, size_t> task_places_;  // in train_, by id
  Outbox outbox_;
  std::map<uint64_t, Group> groups_;            // without a final report, and those just reported
  std::map<uint64_t, v1::GroupLease> unsaved_;  // waiting for the ledger
  std::map<uint64_t, SentGroup> sent_;          // without a report, by group
  Time look_at_sent_ = Time::min();
  uint64_t losses_ = 0;                  // of the bus, at the last look
  std::deque<Wanted> wanted_;            // attempted before all others
  std::map<size_t, uint32_t> reissued_;  // by task: in a row
  std::map<std::string, Eval> evals_;    // under way
  uint32_t evals_running_ = 0;           // episodes
  uint64_t next_group_;
  bool before_done_ = false;
  bool last_step_ = false;
  bool after_started_ = false;
  bool draining_ = false;
  std::atomic<bool> issue_no_more_{false};
  DispatcherCounters counters_;
};

}  // namespace tidemill
