// The dispatcher decides which task is attempted when: it issues groups while the gate has room,
// hears what became of them, and runs the evaluations.
//
//   tasks --order--> group --ledger (durable)--> rollout.groups        dispatch.reports --> credits
//
// It never issues a group before the ledger holds it, so that a resumed run knows what is
// outstanding.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/journal.h"
#include "core/loop.h"
#include "proto/tidemill.pb.h"
#include "rollout/admission_gate.h"
#include "rollout/task_difficulty.h"
#include "rollout/task_order.h"
#include "store/store_port.h"

namespace tidemill {

struct EvalPlan {
  std::string name;  // "before", "step-50"
  v1::Sampling sampling;
  uint32_t samples = 1;  // episodes a task
  uint32_t max_turns = 1;
};

struct DispatcherOptions {
  GateOptions gate;
  uint32_t group_size = 8;
  uint64_t seed = 1;
  std::map<std::string, double> tag_weights;
  double difficulty_floor = 1;  // of TaskDifficulty; 1: every task is issued in its turn
  v1::Sampling sampling;        // of training episodes
  uint32_t max_turns = 1;
  uint32_t max_context_tokens = 0;    // 0: the engine's
  std::vector<EvalPlan> eval_before;  // run before the first group of training
  std::vector<EvalPlan> eval_after;   // run when the learner took its last step
  std::vector<EvalPlan>
      eval_during;                // run every eval_every_steps; "-step-N" is put behind each name
  uint64_t eval_every_steps = 0;  // 0: never
  uint32_t eval_in_flight = 512;  // episodes of evaluations running at once
  // How often in a row a task whose group was dropped through us is attempted again at once. One
  // that fails us every time then waits for its next turn, or it would crowd out all others.
  uint32_t reissues_max = 2;
  bool train = true;  // false: only the evaluations of eval_before
  // Read back when a run is resumed.
  uint64_t next_group = 1;
  uint64_t steps_done = 0;
  std::string cursor;
  std::vector<v1::GroupLease> outstanding;  // issued, no final report: issued again
  std::vector<v1::GroupReport> in_replay;   // accepted, not used yet
  std::vector<std::string> reissue;  // tasks whose group was dropped and that are to be tried again
};

struct EvalTally {
  uint32_t tasks = 0;
  uint32_t episodes = 0;
  uint32_t scored = 0;
  uint32_t solved = 0;
  double reward_sum = 0;
};

// How the dispatcher is doing, for people; read from any thread.
struct DispatcherCounters {
  std::atomic<uint64_t> groups_issued{0};
  std::atomic<uint64_t> groups_dropped{0};
  std::atomic<uint64_t> passed_over{0};  // turns of tasks that seemed to teach nothing
  std::atomic<uint64_t> put_off{0};  // tasks dropped too often in a row to be issued again at once
  std::atomic<uint64_t> running{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> epoch{0};
  std::atomic<bool> done{false};  // evaluations after the last step are in
};

class Dispatcher final : public Loop {
 public:
  // `train` and `eval` are borrowed and must outlive it.
  Dispatcher(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
             const std::vector<v1::Task>& train, const std::vector<v1::Task>& eval, TaskOrder order,
             DispatcherOptions options);

  std::string_view name() const override { return "dispatcher"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override { draining_ = true; }
  bool Drained() const override { return outbox_.waiting() == 0; }

  // Any thread: from now on no group is issued, of training or evaluation; reports are still heard.
  void IssueNoMore() { issue_no_more_ = true; }

  const DispatcherCounters& counters() const { return counters_; }
  const AdmissionGate& gate() const { return gate_; }

 private:
  enum class GroupState { kRunning, kAccepted, kDropped };
  struct Group {
    GroupState state = GroupState::kRunning;
    uint32_t revision = 0;
    uint32_t members = 0;
    size_t task = 0;
    std::string eval;  // name of the evaluation; empty: training
  };
  struct Eval {
    EvalPlan plan;
    size_t next_task = 0;
    size_t finished_tasks = 0;
    EvalTally result;
  };

  void TakeReports();
  void TakeGivenUp();
  void OnGroupReport(const v1::GroupReport& report);
  void Reissue(size_t task);
  void OnEvalReport(Group& group, const v1::GroupReport& report);
  void OnStep(const v1::StepDone& step);
  void TakeStored();
  void IssueTraining();
  size_t NextTask();
  void IssueEvals();
  void Issue(v1::GroupLease lease, Group group);
  v1::GroupLease MakeLease(const v1::Task& task, uint32_t members, const v1::Sampling& sampling,
                           uint32_t max_turns);
  void StartEvals(const std::vector<EvalPlan>& plans, const std::string& suffix);
  bool Training() const;

  Bus& bus_;
  StorePort& store_;
  const Clock& clock_;
  Journal& journal_;
  const std::vector<v1::Task>& train_;
  const std::vector<v1::Task>& eval_;
  TaskOrder order_;
  TaskDifficulty difficulty_;
  DispatcherOptions options_;
  AdmissionGate gate_;
  Outbox outbox_;
  std::map<uint64_t, Group> groups_;            // without a final report, and those just reported
  std::map<uint64_t, v1::GroupLease> unsaved_;  // waiting for the ledger
  std::deque<size_t> reissue_;                  // tasks to attempt again first
  std::map<size_t, uint32_t> reissued_;         // by task: in a row
  std::map<std::string, Eval> evals_;           // under way
  uint32_t evals_running_ = 0;                  // episodes
  uint64_t next_group_;
  bool before_done_ = false;
  bool last_step_ = false;
  bool after_started_ = false;
  bool draining_ = false;
  std::atomic<bool> issue_no_more_{false};
  DispatcherCounters counters_;
};

}  // namespace tidemill
