#include "rollout/dispatcher.h"

#include <algorithm>
#include <set>

#include "bus/read_message.h"
#include "core/group_token.h"
#include "core/random.h"
#include "core/secret.h"
#include "core/topics.h"

namespace tidemill {
namespace {

// What an agent, or whoever runs it, must not see stays here.
void KeepForAgent(v1::Task& task) {
  task.clear_grading();
  task.clear_solution();
  task.clear_weights();
  task.clear_metadata_json();
}

// Accepted groups are remembered this long in case replay withdraws one; far more than replay
// holds.
constexpr uint64_t kRememberedGroups = 200'000;
constexpr int kPassedOverMax = 100;
constexpr size_t kWantedMax = 256;  // sessions that wait for their siblings
constexpr size_t kReportsAtOnce = 256;
constexpr PolicyId kSessionPolicy = PolicyId::kMain;  // of the gateway's sessions and releases
constexpr uint64_t kNoTag = 0;                        // no group has this number

}  // namespace

Dispatcher::Dispatcher(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
                       const std::vector<v1::Task>& train, const std::vector<v1::Task>& eval,
                       PolicyOrders order, DispatcherOptions options)
    : bus_(bus),
      store_(store),
      clock_(clock),
      journal_(journal),
      train_(train),
      eval_(eval),
      order_(std::move(order)),
      options_(std::move(options)),
      outbox_(bus),
      next_group_(options_.next_group) {
  for (const DispatchedPolicy& policy : options_.trained) {
    const TaskDifficulty difficulty(train.size(), options_.difficulty_floor, options_.seed);
    Line& line = lines_.try_emplace(policy.id, policy, difficulty).first->second;
    line.gate.Resume(static_cast<int64_t>(policy.steps_done));
  }
  for (const auto& [policy, report] : options_.in_replay) ResumeInReplay(policy, report);
  for (size_t i = 0; i < train_.size(); ++i) task_places_.emplace(train_[i].id(), i);
  for (v1::GroupLease& lease : options_.outstanding) {
    auto task = task_places_.find(lease.task().id());
    const auto policy = options_.policies.Find(lease.policy());
    if (lease.purpose() != v1::PURPOSE_TRAIN || task == task_places_.end() || !policy.ok() ||
        !lines_.contains(*policy)) {
      continue;
    }
    *lease.mutable_task() = train_[task->second];
    KeepForAgent(*lease.mutable_task());
    const auto shares = SharesOf(*policy);
    for (const auto& [whose, state] : shares) lines_.at(whose).gate.Issued(lease.members());
    lease.set_token(GroupToken(options_.secret, lease));
    groups_[lease.group()] = {.shares = shares,
                              .members = lease.members(),
                              .task = task->second,
                              .token = lease.token(),
                              .policy = *policy};
    Send(std::move(lease));
  }
  options_.outstanding.clear();
  for (const auto& [policy, task] : options_.reissue) {
    const auto it = task_places_.find(task);
    const auto line = lines_.find(policy);
    if (it != task_places_.end() && line != lines_.end())
      line->second.reissue.push_back(it->second);
  }
  StartEvals(options_.eval_before, "");
  before_done_ = evals_.empty();
  if (!options_.train && evals_.empty()) counters_.done = true;
}

// What a report says of one policy; without a team: of the only one.
v1::PolicyCredit Dispatcher::CreditOf(const v1::GroupReport& report, PolicyId policy) const {
  v1::PolicyCredit whole;
  whole.set_accepted(report.accepted());
  whole.set_dropped(report.dropped());
  whole.set_uses(report.uses());
  if (report.credits().empty()) return whole;
  for (const v1::PolicyCredit& credit : report.credits()) {
    if (credit.policy() == options_.policies.NameOf(policy)) return credit;
  }
  return {};  // it has no turn in the group
}

std::map<PolicyId, Dispatcher::GroupState> Dispatcher::SharesOf(PolicyId policy) const {
  std::map<PolicyId, GroupState> shares;
  for (const auto& [whose, line] : lines_) {
    if (options_.team || whose == policy) shares[whose] = GroupState::kRunning;
  }
  return shares;
}

void Dispatcher::ResumeInReplay(PolicyId policy, const v1::GroupReport& report) {
  if (!options_.team && !lines_.contains(policy)) return;
  Group& group = groups_[report.group()];
  group = {.shares = SharesOf(policy),
           .revision = report.revision(),
           .members = report.accepted(),
           .policy = options_.team ? lines_.begin()->first : policy};
  for (auto& [whose, state] : group.shares) {
    const v1::PolicyCredit credit = CreditOf(report, whose);
    state = credit.accepted() > 0 ? GroupState::kAccepted : GroupState::kDropped;
    if (credit.accepted() == 0) continue;
    lines_.at(whose).gate.ResumeAccepted(credit.accepted(), credit.uses());
  }
}

void Dispatcher::Attach(Waker& waker) {
  bus_.Subscribe(kDispatchTopic, waker);
  bus_.Subscribe(kGivenUpTopic, waker);
  bus_.Subscribe(kSiblingsWantedTopic, waker);
  store_.events().Attach(waker);
}

Time Dispatcher::Step(Time now) {
  TakeReports();
  TakeGivenUp();
  TakeWanted();
  TakeStored();
  SendAgain(now);
  if (!draining_ && !issue_no_more_) {
    IssueEvals();
    if (Training()) IssueWanted(), IssueTraining();
  }
  outbox_.Flush(now);
  counters_.running = static_cast<uint64_t>(Running());
  counters_.accepted = static_cast<uint64_t>(Accepted());
  counters_.evaluating = evals_running_;
  counters_.epoch = order_.epoch();
  // A full topic says nothing when it drains: look again soon.
  return now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200));
}

bool Dispatcher::Training() const {
  return options_.train && before_done_ && !last_step_;
}

void Dispatcher::TakeReports() {
  for (Lease& lease : TakeFrom(bus_, kDispatchTopic, kReportsAtOnce)) {
    v1::DispatchEvent event;
    if (!ReadOrReject(bus_, lease, event, options_.limits)) continue;
    if (event.has_group()) OnGroupReport(event.group());
    if (event.has_step()) OnStep(event.step());
    (void)bus_.Ack(lease);
  }
}

// Groups that took their workers with them too often. Rollout cannot write to the ledger, so that
// is done here; a group that came to its end after all has a report and keeps it.
void Dispatcher::TakeGivenUp() {
  for (Lease& lease : TakeFrom(bus_, kGivenUpTopic, kReportsAtOnce)) {
    v1::GroupGivenUp given_up;
    if (!ReadOrReject(bus_, lease, given_up, options_.limits)) continue;
    auto it = groups_.find(given_up.group());
    if (it != groups_.end() && it->second.revision == 0) {
      if (!SameToken(given_up.token(), it->second.token)) {
        (void)bus_.Reject(
            lease, "not the token of the lease on group " + std::to_string(given_up.group()));
        continue;
      }
      v1::GroupReport report;
      report.set_group(it->first);
      report.set_revision(it->second.revision + 1);
      report.set_dropped(it->second.members);
      report.set_reason(given_up.reason());
      store_.Submit(PutGroupReport{report}, kNoTag);
      OnGroupReport(report);
    }
    (void)bus_.Ack(lease);
  }
}

// A wish is not kept: the session's loop asks again after a restart.
void Dispatcher::TakeWanted() {
  for (Lease& lease : TakeFrom(bus_, kSiblingsWantedTopic, kReportsAtOnce)) {
    v1::SiblingsWanted wanted;
    if (!ReadOrReject(bus_, lease, wanted, options_.limits)) continue;
    const auto task = task_places_.find(wanted.task());
    if (task == task_places_.end() || wanted_.size() >= kWantedMax || last_step_ ||
        !lines_.contains(kSessionPolicy)) {
      TellSession(wanted.session(), 0, 0);
    } else {
      wanted_.push_back({task->second, wanted.session()});
    }
    (void)bus_.Ack(lease);
  }
}

void Dispatcher::TellSession(uint64_t session, uint32_t scored, double reward_sum) {
  v1::SiblingsDone done;
  done.set_session(session);
  done.set_scored(scored);
  done.set_reward_sum(reward_sum);
  outbox_.Publish(kSiblingsTopic, done.SerializeAsString());
}

void Dispatcher::OnGroupReport(const v1::GroupReport& report) {
  auto it = groups_.find(report.group());
  if (it == groups_.end() || report.revision() <= it->second.revision) return;  // a repetition
  Group& group = it->second;
  const bool first = group.running();
  group.revision = report.revision();
  group.token.clear();
  sent_.erase(it->first);
  if (!group.eval.empty()) {
    OnEvalReport(group, report);
    groups_.erase(it);
    return;
  }
  if (first) {
    LineOf(group).difficulty.Heard(group.task, report.solved(), report.scored());
    if (group.session != 0) TellSession(group.session, report.scored(), report.reward_sum());
  }
  TakeShares(group, report);
  if (report.accepted() > 0) {
    reissued_.erase(group.task);
    return;
  }
  ++counters_.groups_dropped;
  if (report.reissue()) Reissue(group);
  groups_.erase(it);
}

void Dispatcher::TakeShares(Group& group, const v1::GroupReport& report) {
  for (auto& [policy, state] : group.shares) {
    AdmissionGate& gate = lines_.at(policy).gate;
    const v1::PolicyCredit credit = CreditOf(report, policy);
    if (credit.accepted() > 0) {
      if (state == GroupState::kRunning) gate.Accepted(group.members);
      state = GroupState::kAccepted;
      continue;
    }
    if (state == GroupState::kRunning) gate.Dropped(group.members);
    if (state == GroupState::kAccepted) gate.Withdrawn(group.members, credit.uses());
    state = GroupState::kDropped;
  }
}

void Dispatcher::Reissue(const Group& group) {
  uint32_t& times = reissued_[group.task];
  if (times < options_.reissues_max) {
    ++times;
    LineOf(group).reissue.push_back(group.task);
  } else {
    ++counters_.put_off;
  }
}

void Dispatcher::OnEvalReport(Group& group, const v1::GroupReport& report) {
  evals_running_ -= group.members;
  auto it = evals_.find(group.eval);
  if (it == evals_.end()) return;
  Eval& eval = it->second;
  ++eval.finished_tasks;
  ++eval.result.tasks;
  eval.result.episodes += group.members;
  eval.result.scored += report.scored();
  eval.result.solved += report.solved();
  eval.result.reward_sum += report.reward_sum();
  if (report.scored() > 0) {
    ++eval.result.rated;
    eval.result.rate_sum += static_cast<double>(report.solved()) / report.scored();
  }
  if (eval.finished_tasks < eval_.size()) return;
  RecordEval(it->first, eval);
  evals_.erase(it);
  if (!evals_.empty()) return;
  before_done_ = true;
  if (!options_.train || after_started_) counters_.done = true;
}

// The same figures as RunReader::Eval: the mean over tasks, whatever number of samples each has.
// Where no sample could be scored there is no rate: none is not 0.
void Dispatcher::RecordEval(const std::string& name, const Eval& eval) {
  const EvalTally& result = eval.result;
  Numbers numbers = {{"tasks", result.tasks},
                     {"episodes", result.episodes},
                     {"unscored", static_cast<double>(result.episodes - result.scored)},
                     {"step", static_cast<double>(eval.step)}};
  Words words = {{"name", name}};
  if (options_.policies.size() > 1) {
    numbers["policy_step"] = static_cast<double>(eval.own_step);
    words["policy"] = options_.policies.Shown(eval.plan.policy);
  }
  std::optional<double> pass_rate;
  if (result.rated > 0) {
    pass_rate = numbers["pass_rate"] = result.rate_sum / result.rated;
    numbers["reward"] = result.reward_sum / result.scored;
  }
  if (eval.first) Tell(options_.listeners, StepEvaluated{eval.step, pass_rate});
  journal_.Record("eval", numbers, words);
}

void Dispatcher::OnStep(const v1::StepDone& step) {
  const auto policy = options_.policies.Find(step.policy());
  if (!policy.ok() || !lines_.contains(*policy)) return;  // of a config of before
  Line& line = lines_.at(*policy);
  const bool news = static_cast<int64_t>(step.step()) > line.gate.steps();
  line.gate.StepsDone(static_cast<int64_t>(step.step()));
  line.last_step = line.last_step || step.last();
  const bool last = std::all_of(lines_.begin(), lines_.end(),
                                [](const auto& one) { return one.second.last_step; });
  if (last && !last_step_) {
    last_step_ = true;
    after_started_ = true;
    StartEvals(options_.eval_after, "");
    if (evals_.empty()) counters_.done = true;
  } else if (news && options_.eval_every_steps > 0 &&
             step.step() % options_.eval_every_steps == 0) {
    StartEvals(options_.eval_during, "-step-" + std::to_string(step.step()), *policy);
  }
}

// Of all policies.
uint64_t Dispatcher::RunSteps() const {
  uint64_t steps = options_.other_steps_done;
  for (const auto& [policy, line] : lines_) steps += static_cast<uint64_t>(line.gate.steps());
  return steps;
}

int64_t Dispatcher::Running() const {
  int64_t running = 0, most = 0;
  for (const auto& [policy, line] : lines_) {
    running += line.gate.running();
    most = std::max(most, line.gate.running());
  }
  return options_.team ? most : running;  // in a team each line counts the same episodes
}

int64_t Dispatcher::Accepted() const {
  int64_t accepted = 0, most = 0;
  for (const auto& [policy, line] : lines_) {
    accepted += line.gate.accepted();
    most = std::max(most, line.gate.accepted());
  }
  return options_.team ? most : accepted;
}

// The first of the plans of a policy is what others decide by.
void Dispatcher::StartEvals(const std::vector<EvalPlan>& plans, const std::string& suffix,
                            std::optional<PolicyId> only) {
  if (eval_.empty()) return;
  std::set<PolicyId> begun;
  for (EvalPlan plan : plans) {
    if (only && plan.policy != *only) continue;
    plan.name += suffix;
    const auto line = lines_.find(plan.policy);
    Eval eval{.plan = plan, .step = RunSteps()};
    if (line != lines_.end()) eval.own_step = static_cast<uint64_t>(line->second.gate.steps());
    eval.first = begun.insert(plan.policy).second && plan.policy == kSessionPolicy;
    evals_.try_emplace(plan.name, std::move(eval));
  }
}

void Dispatcher::IssueEvals() {
  for (auto& [name, eval] : evals_) {
    while (eval.next_task < eval_.size() &&
           (evals_running_ == 0 || evals_running_ + eval.plan.samples <= options_.eval_in_flight)) {
      v1::GroupLease lease = MakeLease(eval_[eval.next_task], eval.plan.samples, eval.plan.sampling,
                                       eval.plan.max_turns, eval.plan.policy);
      // The same draws in every evaluation: a difference between two is the policy's, not the
      // dice's.
      lease.set_seed(MixHash(options_.seed, StableHash("eval/" + eval_[eval.next_task].id())));
      lease.set_purpose(v1::PURPOSE_EVAL);
      lease.set_eval_name(name);
      evals_running_ += eval.plan.samples;
      Group group{.members = eval.plan.samples,
                  .task = eval.next_task,
                  .eval = name,
                  .policy = eval.plan.policy};
      if (eval.next_task == 0) eval.number = lease.group();
      ++eval.next_task;
      Issue(std::move(lease), std::move(group),
            GroupEvaluation{eval.number, eval.step, static_cast<uint32_t>(eval_.size())});
    }
  }
}

// The next in the order that is worth it; after a while the next, whatever it is.
size_t Dispatcher::NextTask(PolicyId policy, Line& line) {
  if (!line.reissue.empty()) {
    const size_t again = line.reissue.front();
    line.reissue.pop_front();
    return again;
  }
  TaskOrder& order = order_.Of(policy);
  for (int tries = 0; tries < kPassedOverMax; ++tries) {
    const size_t task = order.Next();
    if (line.difficulty.Worth(task)) return task;
    ++counters_.passed_over;
  }
  return order.Next();
}

// A group for each policy in turn, so that none takes the room of the others.
void Dispatcher::IssueTraining() {
  if (options_.team) {
    while (IssueForTeam()) {
    }
    return;
  }
  bool issued = true;
  while (issued) {
    issued = false;
    for (auto& [policy, line] : lines_) {
      if (!line.over()) issued = IssueTraining(policy, line) || issued;
    }
  }
}

bool Dispatcher::IssueTraining(PolicyId policy, Line& line) {
  const int64_t of_others = Running() - line.gate.running();
  if (std::min(line.gate.Room(), line.gate.Flight() - of_others) < options_.group_size) {
    return false;
  }
  IssueTask(NextTask(policy, line), policy, 0);
  return true;
}

// One whose gate is full has its next batch: it waits for nobody. One that took its last step
// bounds nobody any more.
bool Dispatcher::IssueForTeam() {
  bool wanted = false;
  for (const auto& [policy, line] : lines_) {
    if (line.over()) continue;
    if (line.gate.Room() < options_.group_size) return false;
    wanted = true;
  }
  if (!wanted) return false;
  auto& [policy, line] = *lines_.begin();
  IssueTask(NextTask(policy, line), policy, 0);
  return true;
}

// A step may wait for the session, and with it for its siblings: they do not wait for a step.
void Dispatcher::IssueWanted() {
  while (!wanted_.empty() && lines_.at(kSessionPolicy).gate.Flight() >= options_.group_size) {
    IssueTask(wanted_.front().task, kSessionPolicy, wanted_.front().session);
    wanted_.pop_front();
    ++counters_.siblings;
  }
}

void Dispatcher::IssueTask(size_t task, PolicyId policy, uint64_t session) {
  v1::GroupLease lease =
      MakeLease(train_[task], options_.group_size, options_.sampling, options_.max_turns, policy);
  lease.set_seed(MixHash(options_.seed, lease.group()));
  lease.set_purpose(v1::PURPOSE_TRAIN);
  Group group{.shares = SharesOf(policy),
              .members = options_.group_size,
              .task = task,
              .session = session,
              .policy = policy};
  for (const auto& [whose, state] : group.shares) {
    lines_.at(whose).gate.Issued(options_.group_size);
  }
  Issue(std::move(lease), std::move(group), std::nullopt);
}

v1::GroupLease Dispatcher::MakeLease(const v1::Task& task, uint32_t members,
                                     const v1::Sampling& sampling, uint32_t max_turns,
                                     PolicyId policy) {
  v1::GroupLease lease;
  lease.set_policy(options_.policies.NameOf(policy));
  lease.set_group(next_group_++);
  *lease.mutable_task() = task;
  KeepForAgent(*lease.mutable_task());
  lease.set_members(members);
  *lease.mutable_sampling() = sampling;
  lease.set_max_turns(task.max_turns() > 0 ? std::min(task.max_turns(), max_turns) : max_turns);
  lease.set_max_context_tokens(options_.max_context_tokens);
  lease.set_issued_ms(clock_.WallMs());
  return lease;
}

void Dispatcher::Issue(v1::GroupLease lease, Group group,
                       std::optional<GroupEvaluation> evaluation) {
  const uint64_t id = lease.group();
  v1::GroupLease record = lease;
  lease.set_token(GroupToken(options_.secret, lease));
  group.token = lease.token();
  groups_.emplace(id, std::move(group));
  if (id > kRememberedGroups)
    groups_.erase(groups_.begin(), groups_.lower_bound(id - kRememberedGroups));
  while (!sent_.empty() && sent_.begin()->first < groups_.begin()->first)
    sent_.erase(sent_.begin());
  record.mutable_task()->Clear();
  record.mutable_task()->set_id(lease.task().id());
  unsaved_.emplace(id, std::move(lease));
  store_.Submit(PutGroup{std::move(record), order_.Cursor(), evaluation}, id);
}

void Dispatcher::TakeStored() {
  for (StoreDone& done : store_.events().TakeAll()) {
    if (!done.status.ok())
      throw std::runtime_error("the ledger of groups: " + done.status.ToString());
    if (done.tag == kNoTag) continue;
    auto node = unsaved_.extract(done.tag);
    TM_CHECK(!node.empty(), "the ledger answered for a group that was not submitted");
    Send(std::move(node.mapped()));
    ++counters_.groups_issued;
  }
}

void Dispatcher::Send(v1::GroupLease lease) {
  outbox_.Publish(options_.groups_topic, lease.SerializeAsString());
  const uint64_t id = lease.group();
  sent_.insert_or_assign(id, SentGroup{std::move(lease), clock_.Now() + options_.group_patience});
}

void Dispatcher::SendAgain(Time now) {
  const uint64_t losses = bus_.Losses();
  const bool all = std::exchange(losses_, losses) != losses;
  if (draining_ || (!all && now < look_at_sent_)) return;
  look_at_sent_ = now + options_.group_patience / 20;
  for (auto& [id, sent] : sent_) {
    if (!all && now < sent.again_at) continue;
    sent.again_at = now + options_.group_patience;
    ++counters_.sent_again;
    outbox_.Publish(options_.groups_topic, sent.lease.SerializeAsString());
  }
}

}  // namespace tidemill
