#include "run/worker.h"

#include <unistd.h>

#include "bus/broker.h"
#include "core/log.h"
#include "core/version.h"
#include "observe/fleet_busy.h"
#include "run/stop_signal.h"

namespace tidemill {
namespace {

// One line for people, the busy port that stands for the role, and the count that is its work.
struct RoleView {
  std::string doing, port, rate_of;
};

RoleView ViewOf(const Run& run) {
  const Loops& loops = run.loops();
  const auto many = [](uint64_t count, const char* what) {
    return count == 0 ? std::string("idle") : std::to_string(count) + what;
  };
  if (loops.learner) {
    const uint64_t next = loops.learner->counters().steps + 1;
    return {"step " + std::to_string(next), "trainer", "trained_tokens"};
  }
  if (loops.rollout) {
    const RolloutCounters& counters = loops.rollout->counters();
    return {std::to_string(counters.episodes_running) + " episodes, " +
                std::to_string(counters.waiting_for_tools) + " at tools",
            "engine", "generated_tokens"};
  }
  if (loops.tools) {
    return {many(loops.tools->counters().running, " calls"), "boxes", "tool_commands"};
  }
  if (loops.reward) {
    return {many(loops.reward->counters().in_progress, " episodes"), "", "verdicts"};
  }
  return {};
}

}  // namespace

WorkerReport ReportOf(const Run& run) {
  WorkerReport report;
  const RoleView view = ViewOf(run);
  report.doing = view.doing;
  report.rate_of = view.rate_of;
  for (const CounterSet* set : run.loops().counters()) {
    for (const Counter* counter : set->all()) {
      const Counter::About& about = counter->about();
      auto& to = about.kind == Counter::Kind::kTotal ? report.counts : report.levels;
      to[about.key] = static_cast<double>(counter->load());
    }
  }
  for (const auto& host : run.process().hosts()) {
    for (const auto& [name, level] : host->Levels()) report.levels[name] = level;
  }
  const Ports& ports = run.process().ports;
  if (ports.engine != nullptr) report.policy_version = ports.engine->version();
  if (run.loops().learner) report.policy_version = run.loops().learner->counters().version;
  const double up = Seconds(run.age());
  // The learner tells of its own loops and ports itself.
  const bool others = !run.loops().learner;
  for (const LoopUsage& usage : run.LoopUsages()) {
    if (view.port.empty()) report.busy += usage.busy;
    if (!others) continue;
    report.counts[kBusyLoop + usage.name] = Seconds(usage.busy);
    report.counts[kTimeLoop + usage.name] = up;
  }
  for (const PortUse& use : run.PortUses()) {
    if (others) {
      report.counts[kBusyPort + use.name] = Seconds(use.busy);
      report.counts[kTimePort + use.name] = up * use.slots;
    }
    if (use.name != view.port) continue;
    report.port = use.name;
    report.busy = use.busy;
    report.slots = use.slots;
  }
  report.counts["busy_seconds"] = Seconds(report.busy);
  return report;
}

WaitingWorker::WaitingWorker(const WorkerBeaconOptions& beacon)
    : url_(beacon.url), run_(beacon.run) {
  beat_.set_worker(beacon.worker);
  beat_.set_role(beacon.role);
  beat_.set_version(FullVersion());
  beat_.set_messages(kMessagesVersion);
  beat_.set_pid(getpid());
  beat_.set_started_ms(RealClock().WallMs());
  beat_.set_doing("waiting for a learner");
}

WaitingWorker::~WaitingWorker() {
  if (roster_) (void)roster_->Leave(beat_.worker());
}

void WaitingWorker::Waiting() {
  const RealClock clock;
  if (clock.Now() < next_) return;
  next_ = clock.Now() + kBeatEvery;
  if (!roster_) {
    Result<std::unique_ptr<Roster>> connected = ConnectRoster(url_, run_);
    if (!connected.ok()) return;
    roster_ = std::move(*connected);
  }
  beat_.set_sent_ms(clock.WallMs());
  if (const Status beaten = roster_->Beat(beat_); !beaten.ok()) {
    LogEvery(std::chrono::seconds(30), "waiting", LogLevel::kWarn,
             "no heartbeat reached the broker", {{"why", beaten.message()}});
  }
}

Status ServeWorker(Run& run, WorkerBeaconOptions options, const std::function<bool()>& ended) {
  options.report = [&run] { return ReportOf(run); };
  options.stuck = [&run] { return run.StuckLoop(); };
  const std::string name = options.worker;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerBeacon> beacon,
                      WorkerBeacon::Start(std::move(options)));
  TM_RETURN_IF_ERROR(run.Start());
  LogInfo("worker " + name + " serves", {{"metrics", beacon->url() + "metrics"}});
  Status watched;
  const Clock& clock = run.process().clock;
  Time look = clock.Now();
  while (watched.ok() && !AskedToStop() && !run.Ended(milliseconds(100))) {
    if (clock.Now() < look) continue;
    watched = run.Watch();
    look = clock.Now() + std::chrono::seconds(1);
    if (!ended || !ended()) continue;
    LogInfo("the run is done");
    break;
  }
  beacon->Leaving();
  // A tool that runs is finished, however long it takes.
  const Duration patience =
      run.loops().tools ? Duration(std::chrono::minutes(10)) : Duration(std::chrono::seconds(30));
  TM_RETURN_IF_ERROR(run.Stop(patience));
  TM_RETURN_IF_ERROR(watched);
  LogInfo("worker " + name + " left");
  return Ok();
}

}  // namespace tidemill
