#include "sim/simulation.h"

#include <array>
#include <memory>
#include <vector>

#include "bus/standard_topics.h"
#include "core/topics.h"
#include "run/assembly.h"
#include "run/teams.h"
#include "sim/clients.h"
#include "sim/draw.h"
#include "sim/durable_checks.h"
#include "sim/faulty_bus.h"
#include "sim/real_db.h"
#include "sim/sim_agents.h"
#include "sim/sim_background.h"
#include "sim/sim_ports.h"
#include "sim/sim_scorer.h"
#include "sim/sim_store.h"
#include "sim/sim_tools.h"
#include "sim/world.h"
#include "store/run_db.h"

namespace tidemill::sim {
namespace {

constexpr const char* kSecret = "of the simulated run";
constexpr uint64_t kSteps = 6;
constexpr auto kLease = std::chrono::seconds(3);
constexpr auto kCalm = std::chrono::seconds(12);   // no crash is planned after this
constexpr auto kLimit = std::chrono::minutes(20);  // by then every run has made its steps

class Simulation {
 public:
  explicit Simulation(const SimOptions& options)
      : options_(options),
        world_(options.seed, options.trace),
        draw_(world_.random(), options),
        ledger_(world_),
        store_(world_, kLearner,
               {.acknowledge_before_sync = options.bug == Bug::kAcknowledgeBeforeInsert,
                .reuse_versions = options.bug == Bug::kVersionReused,
                .slow_sync = draw_.slow_store},
               draw_.replay.max_uses * (WithTeam() ? 2 : 1)),
        train_(MakeTasks("t", 7)),
        eval_(MakeTasks("e", 2)) {
    book_.Add(train_), book_.Add(eval_);
    store_.on_group = [this](const v1::GroupLease& group) {
      if (group.purpose() != v1::PURPOSE_TRAIN) return;
      const auto policy = PolicyNamesOf(Config()).Find(group.policy());
      TM_CHECK(policy.ok(), "a group is of a policy of the run");
      // A step may be done and not yet in the database; the dispatcher knows of those that are
      // published.
      for (const RunPolicy& one : PoliciesOf(Config())) {
        if (!WithTeam() && one.id != *policy) continue;
        const uint64_t steps = learner_ == nullptr ? 0 : versions_.NewestStep(one.id);
        // One that took its last step bounds a team no more.
        if (WithTeam() && steps >= kSteps) continue;
        CheckGate(store_, draw_, one.name, steps, WithTeam(), world_);
      }
    };
    store_.on_durable = [this](const StoreOp& op) { db_.Keep(op); };
    store_.on_trajectory = [this](const v1::Trajectory& trajectory) {
      const uint64_t group = trajectory.id().group();
      if (forgeries_.Touched(group)) return;
      // A tool worker that lies says what it likes.
      const std::string wrong = draw_.forger >= 0 ? "" : WrongBackground(trajectory);
      if (!wrong.empty()) world_.verdict().Fail(wrong);
      if (forgeries_.IsHonest(trajectory)) return;
      world_.verdict().Fail("a forger changed an episode of group " + std::to_string(group) +
                            ", which it never had");
    };
  }

  SimReport Run() {
    StartAll();
    PlanCrashes();
    const Time limit = Time(std::chrono::duration_cast<Duration>(kLimit));
    const bool finished = world_.Run(bus_pointer_, limit, [this] { return Done(); });
    if (!finished && !world_.verdict().failed()) {
      world_.verdict().Fail("the learner made " + std::to_string(steps_seen_) + " of " +
                            std::to_string(RunStepsOf(Config())) + " steps and then starved");
    }
    // A resume forgets what groups that are gone were used beyond their share.
    if (!world_.verdict().failed() && resumes_ == 0)
      CheckUses(store_, draw_.replay, WithTeam() ? 2 : 1, world_);
    if (!world_.verdict().failed()) CheckEnd();
    SimReport report;
    report.seed = options_.seed;
    report.ok = !world_.verdict().failed();
    report.failure = world_.verdict().failure();
    report.steps = steps_seen_;
    report.policies = PoliciesOf(Config()).size();
    report.crashes = crashes_;
    report.resumes = resumes_;
    report.trajectories = store_.durable().trajectories.size();
    report.rescored = store_.rescored();
    CountCalls(store_.durable(), report);
    report.refused = refused_ + (replay_ == nullptr ? 0 : replay_->counters().refused.load());
    report.loop_steps = world_.steps();
    report.virtual_seconds = Seconds(world_.clock().Now().time_since_epoch());
    world_.Tell(report);
    StopAll();
    return report;
  }

 private:
  // One process of the cluster: its connection, its ports and its loops, in the order they are
  // made.
  struct Process {
    std::unique_ptr<FaultyBus> bus;
    std::vector<std::unique_ptr<StorePort>> stores;
    std::vector<std::unique_ptr<SimTrainer>> trainers;
    std::unique_ptr<SimEngine> engine;
    std::unique_ptr<SimAgents> agents;
    std::unique_ptr<SimTools> tools;
    std::unique_ptr<SimScorer> scorer;
    Loops loops;
  };

  void NewBus() {
    bus_ = std::make_unique<MemoryBus>(world_.clock());
    bus_pointer_ = bus_.get();
    // Small topics, so that back-pressure is met.
    TM_CHECK(OpenStandardTopics(
                 *bus_, {.lease = kLease, .capacity = draw_.topic_capacity, .max_deliveries = 50})
                 .ok());
  }

  void StartAll() {
    NewBus();
    for (ProcessId process = 0; process < kProcesses; ++process) StartProcess(process);
  }
  void StopAll() {
    for (ProcessId process = 0; process < kProcesses; ++process) StopProcess(process);
  }

  void StartProcess(ProcessId id) {
    Process& process = processes_[static_cast<size_t>(id)];
    BusFaults faults = draw_.bus;
    if (id == draw_.forger) faults.forge = draw_.forge_share;
    if (id == kLearner && options_.bug == Bug::kTokenNotChecked) faults.forged_tokens = kSecret;
    process.bus = std::make_unique<FaultyBus>(*bus_, world_, ledger_, forgeries_, id, faults);
    const std::string worker = "w" + std::to_string(id) + "-" + std::to_string(++incarnation_);
    if (id == kLearner) StartLearner(process, worker);
    if (id == kRollout1 || id == kRollout2) StartRollout(process, id, worker);
    if (id == kTools1 || id == kTools2) StartTools(process, id, worker);
    if (id == kReward) StartReward(process, worker);
    for (Loop* loop : process.loops.all()) world_.AddLoop(id, *loop);
    world_.Trace("process " + worker + " starts");
  }

  void StopProcess(ProcessId id) {
    world_.Kill(id, *bus_);
    ledger_.Died(id);
    if (id == kLearner) {
      if (replay_ != nullptr) refused_ += replay_->counters().refused;
      replay_ = nullptr;
      store_.Crash();
    }
    Process& process = processes_[static_cast<size_t>(id)];
    process.loops = Loops();
    process = Process();
  }

  void StartLearner(Process& process, const std::string& worker) {
    const SimDurable& durable = store_.durable();
    const uint64_t step = durable.checkpoints.empty() ? 0 : durable.checkpoints.rbegin()->first;
    if (incarnation_ > kProcesses) ++resumes_;
    store_.ResumeFrom(step);
    auto resumed = db_.Resume(step, UsesOfAll(Config()));
    if (!resumed.ok()) {
      world_.verdict().Fail("the database cannot go on: " + resumed.status().message());
      resumed = ResumeState();
    }
    for (int i = 0; i < 4; ++i) process.stores.push_back(store_.NewClient());
    process.bus->OnAck(std::string(kTrajectoriesTopic), [this](const Lease& lease) {
      v1::Trajectory trajectory;
      TM_CHECK(trajectory.ParseFromString(lease.body));
      if (!store_.Holds(trajectory.id())) {
        world_.verdict().Fail("a trajectory was acknowledged before it was durable");
      }
    });
    RunStart start{.worker = worker,
                   .alone = true,
                   .step = step,
                   .checkpoints = "sim",
                   .secret = kSecret,
                   .vocabulary = SimLimits().vocabulary,
                   .context = 56,
                   .resumed = std::move(*resumed)};
    Ports ports;
    BeginPolicies(start, process, ports);
    ports.dispatcher_store = process.stores[0].get();
    ports.replay_store = process.stores[1].get();
    ports.learner_store = process.stores[2].get();
    if (memory_.on && !WithTeam()) {
      ports.cases = memory_.Begin(durable, world_, kLearner);
      ports.keys = memory_.keys.get();
      ports.memory_store = process.stores[3].get();
    }
    if (Taught()) ports.teacher = &process.trainers.front()->teacher();
    ports.train_tasks = &train_;
    ports.eval_tasks = &eval_;
    ports.book = &book_;
    Put(process, {.learner = true}, ports, start);
    learner_ = process.loops.learner.get();
    replay_ = process.loops.replay.get();
  }

  // A version and a trainer for each policy; the base has a version also where it is not trained.
  void BeginPolicies(RunStart& start, Process& process, Ports& ports) {
    const RunConfig config = Config();
    const auto begin = [&](PolicyId policy, const std::string& name) {
      const auto own = start.resumed.policy_steps.find(name);
      PolicyStart begun{policy, own == start.resumed.policy_steps.end() ? 0 : own->second, 0};
      begun.version = store_.ReserveNow(start.step);
      db_.Keep(ReserveVersion{start.step, {name, begun.step}});
      if (!versions_.Add(policy, begun.version, begun.step)) {
        world_.verdict().Fail("version " + std::to_string(begun.version) + " was published twice");
      }
      return begun;
    };
    start.version = begin(PolicyId::kMain, "").version;
    const TrainerChecks checks{.policies = PolicyNamesOf(config),
                               .hard_max_steps = draw_.hard_max,
                               .batch_episodes = kBatch,
                               .forgeries = &forgeries_,
                               .agents = WithPrograms(),
                               .teacher = Taught(),
                               .away_teacher_agrees = options_.bug == Bug::kAwayTeacherAgrees};
    for (const RunPolicy& policy : PoliciesOf(config)) {
      if (policy.id != PolicyId::kMain) start.policies.push_back(begin(policy.id, policy.name));
      process.trainers.push_back(
          std::make_unique<SimTrainer>(world_, kLearner, policy.id, versions_, checks));
      ports.trainers[policy.id] = process.trainers.back().get();
    }
    if (options_.bug == Bug::kTrainedUnderAnother) {
      std::swap(ports.trainers.begin()->second, ports.trainers.rbegin()->second);
    }
  }

  // The loops of the process, put together as the program does.
  void Put(Process& process, Roles roles, Ports ports, RunStart& start) {
    const RunConfig config = Config();
    LoopOptions options = LoopOptionsFrom(config, start).value();
    options.rollout.max_episodes = 9;
    options.rollout.give_up_after = 8;
    options.replay.score_patience = std::chrono::seconds(90);
    options.learner.prefetch = draw_.prefetch;
    if (options_.bug == Bug::kRoleOfAnother) {
      std::vector<TeamSeat>& seats = options.rollout.team->seats;
      seats[1].policy->id = seats[0].policy->id;
    }
    if (options_.bug == Bug::kBoundsNotChecked) {
      options.replay.limits.vocabulary = MessageLimits().vocabulary;
    }
    ports.clock = &world_.clock();
    ports.journal = &journal_;
    ports.bus = process.bus.get();
    ports.protocol = &protocol_;
    process.loops = Assemble(config, roles, ports, std::move(options), start.resumed).value();
  }

  RunConfig Config() const {
    RunConfig config;
    config.run.seed = options_.seed;
    config.run.steps = kSteps;
    if (SeveralPolicies()) {
      config.policies = {{.name = "coder"}, {.name = "planner"}};
      config.learner.lora_rank = 4;
    }
    if (WithTeam()) {
      config.team = {.kind = options_.seed % 4 == 0 ? "chain" : "review",
                     .roles = {"code", "plan"}};
      config.roles = {{.name = "code", .policy = "coder"}, {.name = "plan", .policy = "planner"}};
    }
    config.rollout.group_size = kGroupSize;
    config.rollout.groups_per_step = kBatchGroups;
    config.rollout.max_in_flight = 15;
    config.rollout.max_turns = 3;
    config.rollout.max_turn_tokens = 8;
    config.rollout.eager = draw_.eager;
    config.rollout.deliver = draw_.deliver_now ? "now" : "turn";
    config.rollout.on_submit = draw_.await_at_end ? "wait" : "cancel";
    config.background.allowed = {"run_tests"};
    config.background.jobs = 2;
    config.background.total = std::chrono::seconds(8);
    config.rollout.on_unavailable = options_.skip_unavailable ? "skip" : "stale";
    config.staleness.max_steps = static_cast<uint32_t>(draw_.eta);
    if (options_.bug == Bug::kGateOffByOne) ++config.staleness.max_steps;
    config.staleness.hard_max_steps = static_cast<uint32_t>(draw_.hard_max);
    config.staleness.too_old = draw_.mask ? "mask" : "drop";
    config.replay = draw_.replay;
    if (options_.bug == Bug::kSampledTooOften) {
      config.replay.samples_per_insert = config.replay.max_uses;
    }
    config.reward = draw_.Rewards();
    config.learner.checkpoint_every_steps = 2;
    config.eval.samples = 2;
    config.eval.max_turns = 2;
    config.eval.every_steps = 3;
    config.eval.after = false;
    config.bus.lease = kLease;
    config.bus.patience = std::chrono::seconds(60);
    config.bus.group_patience = std::chrono::minutes(2);
    config.memory.on = memory_.on && !WithTeam();
    if (memory_.with_keys) config.memory.retrieval = "hidden";
    if (Taught()) AddSimTeacher(config);
    return config;
  }

  // In every third run, and where their bugs are planted.
  bool SeveralPolicies() const {
    const bool planted = options_.bug == Bug::kTrainedUnderAnother ||
                         options_.bug == Bug::kVersionOfAnother ||
                         options_.bug == Bug::kRoleOfAnother;
    return planted || (options_.seed % 3 == 1 && options_.bug == Bug::kNone);
  }
  // In every other run of several policies, and where its bug is planted.
  bool WithTeam() const {
    if (options_.bug == Bug::kRoleOfAnother) return true;
    return SeveralPolicies() && options_.bug == Bug::kNone && options_.seed % 2 == 0;
  }
  bool Taught() const { return WithTeacher(options_.seed) && !WithTeam(); }
  // In every third run.
  bool WithPrograms() const {
    return options_.broken_tool.empty() && options_.seed % 3 == 0 && !SeveralPolicies();
  }

  void StartRollout(Process& process, ProcessId id, const std::string& worker) {
    process.engine =
        std::make_unique<SimEngine>(world_, id, versions_, options_.bug == Bug::kVersionOfAnother);
    RunStart start{.worker = worker, .max_context = 64, .secret = worker};
    Ports ports;
    ports.engine = process.engine.get();
    const bool bug = options_.bug == Bug::kLostBoxIsAResult;
    process.agents = std::make_unique<SimAgents>(world_, id, versions_, bug);
    if (WithPrograms()) ports.agents = process.agents.get();
    Put(process, {.rollout = true}, ports, start);
  }

  void StartTools(Process& process, ProcessId id, const std::string& worker) {
    process.tools = std::make_unique<SimTools>(world_, id, options_.broken_tool,
                                               options_.bug == Bug::kDeliveredToAnother);
    RunStart start{.worker = worker, .secret = worker};
    Ports ports;
    ports.tools = process.tools.get();
    Put(process, {.tools = true}, ports, start);
  }

  void StartReward(Process& process, const std::string& worker) {
    process.scorer = std::make_unique<SimScorer>(world_, kReward, draw_.scorer, draw_.judging);
    RunStart start{.worker = worker, .secret = worker};
    Ports ports;
    ports.scorer = process.scorer.get();
    ports.judges = &process.scorer->judge();
    Put(process, {.reward = true}, ports, start);
  }

  void PlanCrashes() {
    const auto count = static_cast<uint64_t>(draw_.crashes);
    for (uint64_t i = 0; i < count; ++i) {
      const auto at = milliseconds(world_.random().Below(
          static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(kCalm).count())));
      const auto victim = static_cast<ProcessId>(world_.random().Below(kProcesses + 1));
      const auto away = milliseconds(10 + world_.random().Below(6000));
      if (victim == kProcesses) {
        world_.After(at, kFate, [this] { CrashMachine(); });
      } else {
        world_.After(at, kFate, [this, victim, away] { CrashProcess(victim, away); });
      }
    }
  }

  void CrashProcess(ProcessId victim, Duration away) {
    if (!processes_[static_cast<size_t>(victim)].bus) return;  // dead already
    world_.Trace("process " + std::to_string(victim) + " crashes");
    world_.Fault("process killed");
    ++crashes_;
    StopProcess(victim);
    world_.After(away, kFate, [this, victim] {
      if (!processes_[static_cast<size_t>(victim)].bus) StartProcess(victim);
    });
  }

  // On one machine everything dies together, the embedded bus and all that was on it included.
  void CrashMachine() {
    world_.Trace("the machine crashes");
    world_.Fault("machine down");
    ++crashes_;
    StopAll();
    ledger_.Forget();
    StartAll();
  }

  bool Done() {
    if (processes_[kLearner].bus && learner_ != nullptr) {
      steps_seen_ = learner_->counters().steps;
      return learner_->counters().done;
    }
    return false;
  }

  void CheckEnd() {
    if (!KnowsEveryGroup(store_.durable())) {
      world_.verdict().Fail("a trajectory belongs to a group that the ledger does not know");
      return;
    }
    const std::string lost = memory_.Failure(store_.durable(), world_.clock().Now());
    if (!lost.empty()) world_.verdict().Fail(lost);
    if (draw_.forger >= 0) return;
    auto dead = bus_->Depth(kDeadTopic);
    if (dead.ok() && dead->ready > 0) {
      world_.verdict().Fail(std::to_string(dead->ready) + " messages died");
    }
  }

  SimOptions options_;
  World world_;
  Draw draw_;
  LeaseLedger ledger_;
  ForgeryLedger forgeries_;
  SimStore store_;
  RealDb db_{world_.clock()};
  std::vector<v1::Task> train_;
  std::vector<v1::Task> eval_;
  TaskBook book_;
  NullJournal journal_;
  SimProtocol protocol_;
  MemoryWatch memory_{options_};
  PublishedVersions versions_;
  std::unique_ptr<MemoryBus> bus_;
  MemoryBus* bus_pointer_ = nullptr;
  std::array<Process, kProcesses> processes_;
  LearnerLoop* learner_ = nullptr;
  ReplayLoop* replay_ = nullptr;
  uint64_t refused_ = 0;  // by replays of before
  int incarnation_ = 0;
  uint64_t steps_seen_ = 0;
  uint64_t crashes_ = 0, resumes_ = 0;
};

}  // namespace

SimReport RunSimulation(const SimOptions& options) {
  const bool clients = IsOfClients(options.bug);
  SimReport report;
  report.seed = options.seed;
  report.ok = true;
  if (!clients) report = Simulation(options).Run();
  if (report.ok && (clients || options.bug == Bug::kNone)) RunClients(options, report);
  return report;
}

}  // namespace tidemill::sim
