#include "planner/planned_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "bus/standard_topics.h"
#include "planner/planned_engine.h"
#include "planner/planned_ports.h"
#include "run/assembly.h"

namespace tidemill {
namespace {

constexpr double kHolds = 0.02;
constexpr uint64_t kFewestSteps = 24;  // before rates can be said to hold
constexpr uint64_t kFirstVersion = 1;

// What the model of a run has: one policy, trained on episodes that tools' results answer and one
// grading scores.
RunConfig Planned(const RunConfig& asked, const ServiceTimes& times) {
  RunConfig config = asked;
  config.policies.clear();
  config.team = TeamConfig();
  config.roles.clear();
  config.skills = SkillsConfig();
  config.agent = AgentConfig();
  config.environments.clear();
  config.live = LiveConfig();
  config.memory = MemoryConfig();
  config.teacher = TeacherConfig();
  config.learner.objective = "grpo";
  config.learner.options.clear();
  config.learner.checkpoint_every_steps = 0;
  config.background = BackgroundConfig();
  config.rollout.eager = false;
  config.rollout.constrain = "none";
  config.reward = RewardConfig();
  config.reward.weights = {{"tests", 1.0}};
  config.tasks.weights.clear();
  config.tasks.floor = 1;
  config.eval.every_steps = 0;
  config.eval.before = config.eval.after = false;
  config.tools.command.clear();
  config.tools.mcp.clear();
  config.tools.cache = 0;  // what a cache saves is in the recorded times
  config.run.steps = 1'000'000'000;
  for (const TaskScripts& scripts : times.tasks) {
    for (const EpisodeScript& script : scripts) {
      config.rollout.max_turns =
          std::max(config.rollout.max_turns, static_cast<uint32_t>(script.turns.size()));
      for (const ScriptedTurn& turn : script.turns) {
        config.rollout.calls_per_turn =
            std::max(config.rollout.calls_per_turn, static_cast<uint32_t>(turn.calls.size()));
      }
    }
  }
  return config;
}

std::vector<v1::Task> TasksOf(const ScriptTable& table) {
  std::vector<v1::Task> tasks(table.tasks());
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].set_id(PlannedTaskName(i));
    tasks[i].set_prompt("p");
    tasks[i].set_answer_file("answer");
    v1::TestCase& test = *tasks[i].mutable_grading()->add_cases();
    test.set_input("1"), test.set_expected("1");
  }
  return tasks;
}

// What had been done when a step ended.
struct Moment {
  double seconds = 0;
  uint64_t scored = 0, too_old = 0, zero_variance = 0;
  EngineTotals engine;
  TrainerTotals trainer;
  StoreTotals store;
  ToolTotals tools;
  double cores_s = 0;
};

class Planning {
 public:
  Planning(const RunConfig& asked, const PlanLayout& layout, const ServiceTimes& times,
           const PlanLimits& limits)
      : asked_(asked),
        config_(Planned(asked, times)),
        layout_(layout),
        times_(times),
        limits_(limits),
        table_(times.tasks),
        tasks_(TasksOf(table_)),
        world_(Grain(layout)),
        machine_(world_, layout.cores),
        gpu_(world_, layout.shared_gpu),
        own_(world_, 0),
        bus_(world_.clock()),
        protocol_(table_),
        engines_(world_, EngineHosts(), times_.engine, table_, kFirstVersion, config_.run.seed),
        trainer_(world_, TrainerHost(), times_.trainer, layout.ranks, table_,
                 [this](uint64_t version) { engines_.Publish(version); }),
        store_(world_, times_.store, table_, scripts_, kFirstVersion + 1),
        tools_(world_, machine_, layout.tool_slots, layout.grade_slots, table_, scripts_) {
    book_.Add(tasks_);
    trainer_.Begin(kFirstVersion);
    trainer_.on_step = [this] { AfterStep(); };
  }

  Result<PlanReport> Run() {
    TM_RETURN_IF_ERROR(OpenStandardTopics(
        bus_,
        {.lease = config_.bus.lease,
         .capacity = std::max<size_t>(config_.bus.capacity, 4 * config_.rollout.max_in_flight),
         .max_deliveries = 1000}));
    TM_RETURN_IF_ERROR(Put());
    moments_.push_back(Now());
    const bool ended = world_.Run(bus_, limits_.seconds, [this] { return !ended_.empty(); });
    if (!ended) ended_ = fmt::format("{:.0f} s of virtual time", limits_.seconds);
    if (moments_.size() < 3) {
      return Unavailable(fmt::format(
          "the plan made {} steps in {:.0f} s of virtual time; a step needs {} episodes",
          moments_.size() - 1, world_.Seconds(), config_.batch_episodes()));
    }
    return Report();
  }

 private:
  // Loops of large fleets are stepped less often, for what arrived meanwhile together.
  static Duration Grain(const PlanLayout& layout) {
    return std::chrono::microseconds(
        std::clamp<int64_t>(25 * static_cast<int64_t>(layout.engines), 50, 5000));
  }
  std::vector<SharedHost*> EngineHosts() {
    SharedHost* host = layout_.one_machine ? &machine_ : layout_.shared_gpu > 0 ? &gpu_ : &own_;
    return std::vector<SharedHost*>(layout_.engines, host);
  }
  SharedHost& TrainerHost() {
    if (layout_.one_machine) return machine_;
    return layout_.shared_gpu > 0 ? gpu_ : own_;
  }

  Status Put() {
    RunStart start{.worker = "plan",
                   .alone = true,
                   .version = kFirstVersion,
                   .max_context = 1 << 24,
                   .secret = "of a planned run",
                   .vocabulary = INT32_MAX};
    Ports ports;
    ports.clock = &world_.clock();
    ports.journal = &journal_;
    ports.bus = &bus_;
    for (auto* port : {&ports.dispatcher_store, &ports.replay_store, &ports.learner_store}) {
      stores_.push_back(store_.NewClient());
      *port = stores_.back().get();
    }
    ports.trainers[PolicyId::kMain] = &trainer_;
    ports.train_tasks = &tasks_;
    ports.eval_tasks = &no_tasks_;
    ports.book = &book_;
    ports.engine = &engines_;
    ports.protocol = &protocol_;
    ports.tools = &tools_;
    TM_ASSIGN_OR_RETURN(LoopOptions options, LoopOptionsFrom(config_, start));
    TM_ASSIGN_OR_RETURN(loops_,
                        Assemble(config_, Roles::All(), ports, std::move(options), start.resumed));
    for (Loop* loop : loops_.all()) world_.AddLoop(*loop);
    return Ok();
  }

  Moment Now() {
    const ReplayCounters& replay = loops_.replay->counters();
    return {world_.Seconds(),     replay.scored,     replay.too_old,
            replay.zero_variance, engines_.Totals(), trainer_.Totals(),
            store_.totals(),      tools_.Totals(),   machine_.BusySeconds()};
  }

  void AfterStep() {
    moments_.push_back(Now());
    const uint64_t steps = moments_.size() - 1;
    if (limits_.whole && steps >= asked_.run.steps) {
      ended_ = fmt::format("all {} steps", steps);
    } else if (moments_.back().scored > limits_.episodes_max) {
      ended_ = fmt::format("{} episodes", moments_.back().scored);
    } else if (!limits_.whole && limits_.until_rates_hold && steps >= kFewestSteps && Hold()) {
      rates_hold_ = true;
      ended_ = "rates hold within 2 %";
    }
  }

  // Two quarters of the time, the later ones, came to the same.
  bool Hold() const {
    const size_t last = moments_.size() - 1;
    const Moment &half = moments_[last / 2], &late = moments_[last * 3 / 4], &end = moments_[last];
    const auto rate = [](double count, const Moment& from, const Moment& to) {
      return count / std::max(1e-9, to.seconds - from.seconds);
    };
    const auto near = [&](auto count) {
      const double before = rate(count(late) - count(half), half, late);
      const double after = rate(count(end) - count(late), late, end);
      return std::abs(after - before) <= kHolds * std::max(after, before);
    };
    return near([](const Moment& at) { return at.trainer.tokens; }) &&
           near([](const Moment& at) { return at.engine.drawn; }) &&
           near([](const Moment& at) { return static_cast<double>(at.trainer.steps); });
  }

  PlanReport Report() {
    const size_t last = moments_.size() - 1;
    const Moment& from = limits_.whole ? moments_[0] : moments_[last / 2];
    const Moment& to = moments_[last];
    PlanReport report;
    report.ended = ended_;
    report.rates_hold = rates_hold_;
    report.seconds = world_.Seconds();
    report.counted_s = to.seconds - from.seconds;
    report.steps = to.trainer.steps - from.trainer.steps;
    const double seconds = std::max(1e-9, report.counted_s);
    const auto scored = static_cast<double>(to.scored - from.scored);
    report.episodes_per_s = scored / seconds;
    report.trained_episodes_per_s =
        static_cast<double>(to.trainer.episodes - from.trainer.episodes) / seconds;
    report.generated_tokens_per_s = (to.engine.drawn - from.engine.drawn) / seconds;
    report.trained_tokens_per_s = (to.trainer.tokens - from.trainer.tokens) / seconds;
    report.step_s = seconds / static_cast<double>(std::max<uint64_t>(1, report.steps));
    Lags(from.trainer, to.trainer, report);
    const double batch =
        to.trainer.tokens + to.trainer.masked - from.trainer.tokens - from.trainer.masked;
    report.masked = (to.trainer.masked - from.trainer.masked) / std::max(1.0, batch);
    report.too_old = static_cast<double>(to.too_old - from.too_old) / std::max(1.0, scored);
    report.zero_variance =
        static_cast<double>(to.zero_variance - from.zero_variance) / std::max(1.0, scored);
    report.rebuilt =
        static_cast<double>(to.engine.rebuilt - from.engine.rebuilt) /
        std::max(1.0, static_cast<double>(to.engine.continued - from.engine.continued));
    report.in_flight = static_cast<double>(loops_.rollout->counters().episodes_running.load());
    ToAllSteps(report);
    Shares(from, to, report);
    return report;
  }

  static void Lags(const TrainerTotals& from, const TrainerTotals& to, PlanReport& report) {
    std::map<uint64_t, double> lags = to.lags;
    for (const auto& [lag, tokens] : from.lags) lags[lag] -= tokens;
    double all = 0, sum = 0, passed = 0;
    for (const auto& [lag, tokens] : lags) {
      all += tokens;
      sum += static_cast<double>(lag) * tokens;
    }
    if (all <= 0) return;
    report.lag_mean = sum / all;
    for (const auto& [lag, tokens] : lags) {
      passed += tokens;
      report.lag_p99 = static_cast<double>(lag);
      if (passed >= 0.99 * all) break;
    }
  }

  void ToAllSteps(PlanReport& report) const {
    const uint64_t made = moments_.size() - 1, wanted = asked_.run.steps;
    report.steps_extrapolated = made < wanted;
    if (wanted <= made) {
      report.seconds_to_steps = moments_[wanted].seconds;
    } else {
      report.seconds_to_steps =
          moments_.back().seconds + report.step_s * static_cast<double>(wanted - made);
    }
  }

  void Shares(const Moment& from, const Moment& to, PlanReport& report) {
    const double seconds = std::max(1e-9, report.counted_s);
    const auto add = [&](const char* name, double busy, uint64_t count) {
      const double share = busy / seconds / static_cast<double>(std::max<uint64_t>(1, count));
      report.ports.push_back({name, std::clamp(share, 0.0, 1.0), count});
    };
    add("engine", to.engine.busy_s - from.engine.busy_s, engines_.count());
    add("trainer", to.trainer.busy_s - from.trainer.busy_s, 1);
    const auto lane = [&](ToolLane one) {
      const auto at = static_cast<size_t>(one);
      return to.tools.busy_s[at] - from.tools.busy_s[at];
    };
    const size_t slots = tools_.slots(ToolLane::kAgent), grades = tools_.slots(ToolLane::kGrade);
    add("calls", lane(ToolLane::kAgent), slots);
    add("gradings", lane(ToolLane::kGrade), grades);
    add("boxes", lane(ToolLane::kAgent) + lane(ToolLane::kGrade), slots + grades);
    if (layout_.cores > 0) add("cores", to.cores_s - from.cores_s, 1);
    add("store", to.store.busy_s - from.store.busy_s, 1);
    report.store_ops_per_s = static_cast<double>(to.store.ops - from.store.ops) / seconds;
    // A group, then of each episode its trajectory, what scores it, and a question and an answer
    // for each call.
    const auto calls = static_cast<double>(to.tools.calls + to.tools.gradings - from.tools.calls -
                                           from.tools.gradings);
    const auto scored = static_cast<double>(to.scored - from.scored);
    report.bus_messages_per_s =
        (2 * calls + 3 * scored + scored / config_.rollout.group_size) / seconds;
    const auto most =
        std::max_element(report.ports.begin(), report.ports.end(),
                         [](const PortShare& a, const PortShare& b) { return a.busy < b.busy; });
    constexpr double kBusy = 0.85;
    if (most->busy >= kBusy) {
      report.bound = most->name;
    } else if (report.in_flight + config_.rollout.group_size > config_.rollout.max_in_flight) {
      report.bound =
          fmt::format("waiting; rollout.max_in_flight is full ({} is busiest)", most->name);
    } else {
      report.bound = fmt::format(
          "waiting; the {} admits no more ({} is busiest)",
          config_.run.mode == "async" ? "staleness bound" : "mode " + config_.run.mode, most->name);
    }
  }

  const RunConfig& asked_;
  const RunConfig config_;
  const PlanLayout layout_;
  const ServiceTimes& times_;
  const PlanLimits limits_;
  const ScriptTable table_;
  const std::vector<v1::Task> tasks_, no_tasks_;
  TaskBook book_;
  NullJournal journal_;
  PlanWorld world_;
  SharedHost machine_, gpu_, own_;
  MemoryBus bus_;
  ScriptedProtocol protocol_;
  EpisodeScripts scripts_;
  PlannedEngines engines_;
  PlannedTrainer trainer_;
  PlannedStore store_;
  PlannedTools tools_;
  std::vector<std::unique_ptr<StorePort>> stores_;
  Loops loops_;
  std::vector<Moment> moments_;  // the start, then each step's end
  std::string ended_;
  bool rates_hold_ = false;
};

// How much smaller a plan may be: at least so many engines and groups a step stay.
uint32_t PartOf(const RunConfig& config, const PlanLayout& layout, const PlanLimits& limits) {
  constexpr uint32_t kEngines = 16, kGroups = 16;
  if (!limits.by_part || limits.whole || config.run.mode != "async") return 1;
  uint32_t part = 1;
  for (uint32_t next = 2; next <= layout.engines / kEngines; ++next) {
    const uint32_t groups = config.rollout.groups_per_step;
    if (layout.engines % next == 0 && groups % next == 0 && groups / next >= kGroups) part = next;
  }
  return part;
}

Result<PlanReport> PlanPart(RunConfig config, PlanLayout layout, ServiceTimes times,
                            const PlanLimits& limits, uint32_t part) {
  const auto share = [part](uint32_t whole) { return std::max(1u, (whole + part / 2) / part); };
  config.rollout.groups_per_step /= part;
  config.rollout.max_in_flight =
      std::max(share(config.rollout.max_in_flight), config.rollout.group_size);
  layout.engines /= part;
  layout.tool_slots = share(layout.tool_slots);
  layout.grade_slots = share(layout.grade_slots);
  layout.cores /= part;
  times.trainer.token_s *= part;  // all ranks, on a part of the batch
  times.store.op_s *= part;       // one store, for all of the fleet
  TM_ASSIGN_OR_RETURN(PlanReport report,
                      std::make_unique<Planning>(config, layout, times, limits)->Run());
  report.part = part;
  for (double* rate : {&report.episodes_per_s, &report.trained_episodes_per_s,
                       &report.generated_tokens_per_s, &report.trained_tokens_per_s,
                       &report.in_flight, &report.bus_messages_per_s, &report.store_ops_per_s}) {
    *rate *= part;
  }
  return report;
}

Status CheckTimes(const ServiceTimes& times) {
  if (times.tasks.empty()) return Invalid("a plan needs the episodes of a task");
  for (const TaskScripts& scripts : times.tasks) {
    if (scripts.empty()) return Invalid("a task of the plan has no episode");
    for (const EpisodeScript& script : scripts) {
      if (script.turns.empty()) return Invalid("an episode of the plan has no turn");
    }
  }
  return Ok();
}

}  // namespace

Result<PlanReport> RunPlan(const RunConfig& config, const PlanLayout& layout,
                           const ServiceTimes& times, const PlanLimits& limits) {
  TM_RETURN_IF_ERROR(CheckTimes(times));
  if (layout.engines == 0 || layout.ranks == 0 || layout.tool_slots == 0 ||
      layout.grade_slots == 0) {
    return Invalid("a plan needs an engine, a learner and slots for tools and gradings");
  }
  try {
    const uint32_t part = PartOf(config, layout, limits);
    if (part > 1) return PlanPart(config, layout, times, limits, part);
    return std::make_unique<Planning>(config, layout, times, limits)->Run();
  } catch (const std::exception& error) {
    return Unavailable(std::string("a loop of the plan ended: ") + error.what());
  }
}

std::vector<std::string> NotPlanned(const RunConfig& config) {
  std::vector<std::string> out;
  const auto add = [&](bool there, const char* what) {
    if (there) out.push_back(what);
  };
  add(!config.policies.empty(), "policies: the default policy alone is planned");
  add(config.team.used(), "teams: episodes have one agent");
  add(config.skills.on, "skills");
  add(config.agent.used(), "agents that are programs");
  add(!config.environments.empty(), "environments");
  add(config.live.on, "sessions (live.on)");
  add(config.memory.on, "memory");
  add(config.teacher.used(), "the teacher");
  add(!config.reward.judges.empty(), "judges");
  add(!config.reward.command.empty(), "the command that scores");
  add(config.eval.every_steps > 0 || config.eval.before || config.eval.after, "evaluations");
  add(config.rollout.eager, "calls that begin while their turn is drawn (rollout.eager)");
  return out;
}

}  // namespace tidemill
