#include "bench/waiting_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/hash.h"
#include "core/loop_runner.h"
#include "core/mutex.h"
#include "core/random.h"
#include "core/topics.h"
#include "observe/episode_timeline.h"
#include "rollout/rollout_loop.h"
#include "testing/scripted_talk.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kWaitingMembers = 8;
constexpr TokenId kScriptStop = 0, kScriptText = 100, kScriptCall = 20, kScriptWait = 21;

struct Script {
  std::vector<std::vector<TokenId>> turns;  // each ends with kScriptStop
  Duration token{};
  Duration tool{};
  EpisodeLimits limits;
  ScriptedWords words;
};

std::vector<TokenId> Written(size_t tokens, std::vector<TokenId> behind) {
  std::vector<TokenId> ids(tokens, kScriptText);
  ids.insert(ids.end(), behind.begin(), behind.end());
  return ids;
}

// Draws the script's tokens, one of every sequence a tick.
class ScriptedEngine final : public EnginePort {
 public:
  ScriptedEngine(const Script& script, const Clock& clock) : script_(script), clock_(clock) {
    thread_ = std::thread([this] { Run(); });
  }
  ~ScriptedEngine() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      arrived_.NotifyAll();
    }
    thread_.join();
  }
  void Start(SequenceStart start) override {
    MutexLock lock(mutex_);
    running_[start.id] = {.drawing = true, .stream = start.stream, .seed = start.turn.seed};
    arrived_.NotifyAll();
  }
  void Continue(SequenceId id, std::vector<TokenId>, TurnParams) override {
    MutexLock lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    Running& running = found->second;
    running.turn = std::min(running.turn + 1, script_.turns.size() - 1);
    running.at = 0;
    running.whole = {};
    running.drawing = true;
    arrived_.NotifyAll();
  }
  void Release(SequenceId id) override {
    MutexLock lock(mutex_);
    running_.erase(id);
  }
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  TurnFeed* episode_feed() override { return &episode_feed_; }
  uint64_t version() const override { return 1; }
  EngineStats Stats() const override { return {}; }

 private:
  struct Running {
    size_t turn = 0, at = 0;
    bool drawing = false, stream = false;
    uint64_t seed = 0;
    TurnOutput whole{};
  };

  void Run() {
    MutexLock lock(mutex_);
    Time next = clock_.Now();
    while (!stopping_) {
      next = std::max(next + script_.token, clock_.Now());
      arrived_.WaitFor(lock, next - clock_.Now(),
                       [this]() TM_REQUIRES(mutex_) { return stopping_; });
      if (!stopping_) Tick();
    }
  }
  void Tick() TM_REQUIRES(mutex_) {
    std::vector<TurnDelta> deltas;
    for (auto& [id, running] : running_) {
      if (!running.drawing) continue;
      const TokenId token = script_.turns[running.turn][running.at++];
      TurnDelta delta;
      delta.part.id = id;
      delta.part.ids = {token};
      // Any number that a draw could have had, the same in every run.
      delta.part.logprobs = {-static_cast<float>(MixHash(running.seed, running.at) % 1000) / 500};
      delta.part.versions = {{1, 1}};
      delta.done = running.at == script_.turns[running.turn].size();
      delta.part.finish = TurnFinish::kStop;
      running.drawing = !delta.done;
      AppendPart(running.whole, delta.part);
      if (running.stream) {
        deltas.push_back(std::move(delta));
      } else if (delta.done) {
        events_.Post({Ok(), std::move(running.whole)});
      }
    }
    episode_feed_.Post(std::move(deltas));
  }

  const Script& script_;
  const Clock& clock_;
  Mailbox<EngineEvent> events_{100'000};
  TurnFeed feed_, episode_feed_;
  Mutex mutex_;
  CondVar arrived_;
  std::map<SequenceId, Running> running_ TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Tools that do nothing for a fixed time, as many at once as are asked.
class TimedTools final : public ToolPort {
 public:
  TimedTools(Duration takes, const Clock& clock) : takes_(takes), clock_(clock) {
    thread_ = std::thread([this] { Run(); });
  }
  ~TimedTools() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      arrived_.NotifyAll();
    }
    thread_.join();
  }
  size_t capacity(ToolLane) const override { return 50'000; }
  void Submit(v1::ToolRequest request, uint64_t tag) override {
    ToolCompletion done;
    done.tag = tag;
    const uint64_t drawn = StableHash(request.request_id());
    done.result.set_outcome(v1::OUTCOME_OK);
    done.result.set_text("said " + std::to_string(drawn));
    done.result.set_tests_total(4);
    done.result.set_tests_passed(static_cast<uint32_t>(drawn % 5));
    done.result.set_wall_ms(Milliseconds(takes_));
    MutexLock lock(mutex_);
    waiting_.emplace(clock_.Now() + takes_, std::move(done));
    arrived_.NotifyAll();
  }
  void Cancel(const v1::TrajectoryId&) override {}
  void CancelOne(uint64_t) override {}
  Mailbox<ToolCompletion>& completions() override { return completions_; }

 private:
  void Run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      const Time now = clock_.Now();
      while (!waiting_.empty() && waiting_.begin()->first <= now) {
        completions_.Post(std::move(waiting_.begin()->second));
        waiting_.erase(waiting_.begin());
      }
      const Duration sleep =
          waiting_.empty() ? Duration(std::chrono::seconds(1)) : waiting_.begin()->first - now;
      const size_t before = waiting_.size();
      arrived_.WaitFor(lock, sleep, [this, before]() TM_REQUIRES(mutex_) {
        return stopping_ || waiting_.size() != before;
      });
    }
  }

  const Duration takes_;
  const Clock& clock_;
  Mailbox<ToolCompletion> completions_{100'000};
  Mutex mutex_;
  CondVar arrived_;
  std::multimap<Time, ToolCompletion> waiting_ TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class WakeCounter final : public Waker {
 public:
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    changed_.WaitFor(lock, milliseconds(20), [this]() TM_REQUIRES(mutex_) { return woken_; });
    woken_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool woken_ TM_GUARDED_BY(mutex_) = false;
};

struct ArmRun {
  WaitingArm arm;
  std::map<std::pair<uint64_t, uint32_t>, std::string> episodes;
  double writing_ms = 0;  // the median of the longest turns
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status PublishGroup(Bus& bus, uint64_t group) {
  v1::GroupLease lease;
  lease.set_group(group), lease.set_members(kWaitingMembers), lease.set_max_turns(16);
  lease.set_seed(MixHash(7, group));
  lease.mutable_task()->set_id("t" + std::to_string(group));
  lease.set_purpose(v1::PURPOSE_TRAIN);
  lease.mutable_sampling()->set_temperature(1);
  lease.mutable_sampling()->set_max_turn_tokens(1000);
  return bus.Publish(kGroupsTopic, lease.SerializeAsString());
}

Result<ArmRun> RunArm(const std::string& name, const Script& script,
                      const WaitingBenchOptions& options) {
  RealClock clock;
  MemoryBus bus(clock);
  TM_RETURN_IF_ERROR(OpenStandardTopics(bus, {.capacity = 100'000}));
  ScriptedEngine engine(script, clock);
  TimedTools port(script.tool, clock);
  const ScriptedProtocol protocol(script.words);
  RolloutOptions rollout_options;
  rollout_options.max_episodes = options.at_once;
  rollout_options.limits = script.limits;
  RolloutLoop rollout(bus, engine, protocol, clock, rollout_options);
  ToolLoopOptions tool_options;
  tool_options.cache = 0;
  ToolLoop tools(bus, port, tool_options);
  WakeCounter waker;
  bus.Subscribe(kTrajectoriesTopic, waker);
  const uint64_t groups = std::max(1u, options.episodes / kWaitingMembers);
  for (uint64_t group = 1; group <= groups; ++group) TM_RETURN_IF_ERROR(PublishGroup(bus, group));
  LoopRunner runner;
  runner.Add(rollout), runner.Add(tools);
  TM_RETURN_IF_ERROR(runner.Start());
  ArmRun run;
  run.arm.name = name;
  std::vector<double> lengths, writing;
  const Time give_up = clock.Now() + std::chrono::minutes(5);
  while (run.episodes.size() < groups * kWaitingMembers) {
    if (clock.Now() > give_up) return Unavailable(name + ": the episodes took over five minutes");
    waker.Wait();
    TM_ASSIGN_OR_RETURN(const std::vector<Lease> leases, bus.Receive(kTrajectoriesTopic, 1000));
    for (const Lease& lease : leases) {
      v1::Trajectory trajectory;
      if (!trajectory.ParseFromString(lease.body)) return Internal("an episode cannot be read");
      (void)bus.Ack(lease);
      lengths.push_back(static_cast<double>(trajectory.finished_ms() - trajectory.started_ms()));
      int64_t longest = 0;
      for (const v1::Turn& turn : trajectory.turns()) {
        longest = std::max(longest, turn.finished_ms() - turn.started_ms());
      }
      writing.push_back(static_cast<double>(longest));
      if (run.arm.timeline.empty()) run.arm.timeline = TimelineText(trajectory);
      run.arm.generating_ms += trajectory.time().generating_ms();
      run.arm.tool_ms += trajectory.time().tool_ms();
      run.arm.place_ms += trajectory.time().place_ms();
      const std::pair id(trajectory.id().group(), trajectory.id().member());
      run.episodes[id] = WithoutTimes(std::move(trajectory));
    }
  }
  runner.RequestStop();
  run.arm.episodes = run.episodes.size();
  run.arm.median_ms = Median(std::move(lengths));
  run.writing_ms = Median(std::move(writing));
  const auto count = static_cast<double>(run.arm.episodes);
  run.arm.generating_ms /= count, run.arm.tool_ms /= count, run.arm.place_ms /= count;
  return run;
}

// 10 tokens, a call, 100 tokens; the answer when its result is there.
Result<WaitingReport> MeasureEager(const WaitingBenchOptions& options) {
  Script script;
  script.token = milliseconds(2);
  script.tool = milliseconds(200);
  std::vector<TokenId> first = Written(10, {kScriptCall});
  for (const TokenId id : Written(100, {kScriptStop})) first.push_back(id);
  script.turns = {first, Written(10, {kScriptStop})};
  script.words.calls = {{kScriptCall, {"run_tests", "{}"}}};
  script.limits.eager = false;
  TM_ASSIGN_OR_RETURN(const ArmRun late, RunArm("late", script, options));
  script.limits.eager = true;
  TM_ASSIGN_OR_RETURN(const ArmRun early, RunArm("eager", script, options));
  WaitingReport report;
  report.title = "eager: 100 tokens behind a call of 200 ms";
  report.without = late.arm, report.with = early.arm;
  report.compared = true;
  for (const auto& [id, bytes] : late.episodes) {
    const auto other = early.episodes.find(id);
    report.same += other != early.episodes.end() && other->second == bytes ? 1 : 0;
  }
  // The writing behind the call takes what the longest turn does, less the tokens in front.
  const double behind = late.writing_ms * 100 / 112;
  report.measure = "time saved, by the smaller of the call and the writing behind it";
  report.value =
      (late.arm.median_ms - early.arm.median_ms) / std::min(behind, Milliseconds(script.tool));
  report.at_least = 0.8;
  return report;
}

// Three calls of a second, one a turn, then 200 tokens; the answer when all results are there.
Result<WaitingReport> MeasureBackground(const WaitingBenchOptions& options) {
  Script script;
  script.token = milliseconds(4);
  script.tool = std::chrono::seconds(1);
  script.words.calls = {{kScriptCall, {"run_tests", "{}"}}};
  const std::vector<TokenId> call = Written(2, {kScriptCall, kScriptStop});
  script.limits.eager = false;
  script.turns = {call, call, call, Written(200, {kScriptStop})};
  TM_ASSIGN_OR_RETURN(const ArmRun blocking, RunArm("blocking", script, options));
  script.words.calls[kScriptWait] = {"wait", R"({"for":"all"})"};
  script.turns = {call, call, call, Written(200, {kScriptWait, kScriptStop}),
                  Written(2, {kScriptStop})};
  script.limits.background["run_tests"] = {.use = BackgroundUse::kAlways};
  TM_ASSIGN_OR_RETURN(const ArmRun background, RunArm("background", script, options));
  WaitingReport report;
  report.title = "background: three calls of 1 s and 200 tokens";
  report.without = blocking.arm, report.with = background.arm;
  const double longest = std::max(Milliseconds(script.tool), background.writing_ms);
  report.measure = "an episode, by the longer of a call and the writing";
  report.value = background.arm.median_ms / longest;
  report.at_most = 1.15;
  report.blocking = blocking.arm.median_ms / longest;
  report.blocking_at_least = 2.5;
  return report;
}

Json ArmJson(const WaitingArm& arm) {
  return {{"name", arm.name},           {"episodes", arm.episodes},
          {"median_ms", arm.median_ms}, {"generating_ms", arm.generating_ms},
          {"tool_ms", arm.tool_ms},     {"place_ms", arm.place_ms}};
}

std::string ArmText(const WaitingArm& arm) {
  return fmt::format(
      "  {:<11} {:>6} episodes, median {:>6.0f} ms; mean: generating {:.0f} ms, waiting for tools "
      "{:.0f} ms, for a place {:.0f} ms\n",
      arm.name, arm.episodes, arm.median_ms, arm.generating_ms, arm.tool_ms, arm.place_ms);
}

}  // namespace

Result<WaitingBenchReport> RunWaitingBench(const WaitingBenchOptions& options) {
  if (options.episodes < kWaitingMembers || options.at_once < kWaitingMembers) {
    return Invalid(fmt::format("at least {} episodes, and as many at once", kWaitingMembers));
  }
  WaitingBenchReport report;
  if (options.eager) {
    TM_ASSIGN_OR_RETURN(WaitingReport eager, MeasureEager(options));
    report.reports.push_back(std::move(eager));
  }
  if (options.background) {
    TM_ASSIGN_OR_RETURN(WaitingReport background, MeasureBackground(options));
    report.reports.push_back(std::move(background));
  }
  return report;
}

std::vector<std::string> WaitingBenchReport::Misses() const {
  std::vector<std::string> misses;
  for (const WaitingReport& one : reports) {
    const std::string what = one.title + ": " + one.measure;
    if (one.at_least > 0 && one.value < one.at_least) {
      misses.push_back(fmt::format("{} is {:.2f}, at least {:.2f}", what, one.value, one.at_least));
    }
    if (one.at_most > 0 && one.value > one.at_most) {
      misses.push_back(fmt::format("{} is {:.2f}, at most {:.2f}", what, one.value, one.at_most));
    }
    if (one.blocking < one.blocking_at_least) {
      misses.push_back(fmt::format("{} is {:.2f} without, at least {:.2f}", what, one.blocking,
                                   one.blocking_at_least));
    }
    if (one.compared && one.same != one.without.episodes) {
      misses.push_back(fmt::format("{}: {} of {} episodes are the same", one.title, one.same,
                                   one.without.episodes));
    }
  }
  return misses;
}

std::string WaitingBenchReport::ToText() const {
  std::string text;
  for (const WaitingReport& one : reports) {
    text += one.title + "\n" + ArmText(one.without) + ArmText(one.with);
    text += one.without.name + ", one episode\n" + one.without.timeline;
    text += one.with.name + ", one episode\n" + one.with.timeline;
    text += fmt::format("  {}: {:.2f}", one.measure, one.value);
    if (one.blocking > 0) text += fmt::format(" ({}: {:.2f})", one.without.name, one.blocking);
    if (one.compared) {
      text += fmt::format("\n  the same bit for bit: {} of {}", one.same, one.without.episodes);
    }
    text += "\n";
  }
  for (const std::string& miss : Misses()) text += "missed: " + miss + "\n";
  return text;
}

std::string WaitingBenchReport::ToJson() const {
  Json json;
  for (const WaitingReport& one : reports) {
    Json& entry = json["reports"].emplace_back();
    entry = {{"title", one.title},        {"without", ArmJson(one.without)},
             {"with", ArmJson(one.with)}, {"measure", one.measure},
             {"value", one.value},        {"blocking", one.blocking}};
    if (one.compared) entry["same"] = one.same;
  }
  json["misses"] = Misses();
  return json.dump();
}

}  // namespace tidemill
