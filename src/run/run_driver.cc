#include "run/run_driver.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "core/blas.h"
#include "core/log.h"
#include "core/metrics.h"
#include "gateway/gateway.h"
#include "live/live_watch.h"
#include "observe/tensorboard_log.h"
#include "observe/tracker.h"
#include "run/best_checkpoint.h"
#include "run/earlier_parts.h"
#include "run/fleet_watch.h"
#include "run/lesson_watch.h"
#include "run/level_metrics.h"
#include "run/policies.h"
#include "run/run_dashboard.h"
#include "run/run_journal.h"
#include "run/run_scalars.h"
#include "run/run_summary.h"

namespace tidemill {
namespace {

std::atomic<int> signals_seen{0};

void OnSignal(int) {
  ++signals_seen;
}

// While it lives, Ctrl-C and SIGTERM are counted instead of ending the process.
class SignalCounter {
 public:
  SignalCounter() {
    signals_seen = 0;
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~SignalCounter() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_ = {};
  struct sigaction old_terminate_ = {};
};

// Every second a line of totals, for plots.
void RecordTick(RunJournal& journal, const RunSnapshot& snapshot) {
  journal.Record("tick", snapshot.ToNumbers(), {});
}

class Driver {
 public:
  Driver(const RunConfig& config, RunDirectory& directory, const DriveOptions& options)
      : config_(config), directory_(directory), options_(options), journal_(clock_) {
    const PolicyNames names = PolicyNamesOf(config);
    for (const RunPolicy& policy : PoliciesOf(config)) {
      if (!policy.trained) continue;
      best_.emplace_back(CheckpointsOf(policy, directory.checkpoints_path()),
                         names.size() > 1 ? names.Shown(policy.id) : "");
    }
  }

  Result<DriveResult> Drive() {
    if (options_.run.metrics == nullptr) options_.run.metrics = &metrics_;
    options_.run.directory = &directory_;
    options_.run.journal = &journal_;
    TM_ASSIGN_OR_RETURN(auto run, OpenRun(config_, options_.run));
    for (const std::string& warning : run->process().warnings) LogWarn(warning);
    watches_ = run->process().watches;
    TM_RETURN_IF_ERROR(OpenLogs(*run));
    const bool batches = options_.run.train && config_.batch_episodes() > 0;
    lessons_.emplace(config_.batch_episodes(), batches, earlier_.Last());
    SignalCounter signals;
    std::shared_ptr<void> company;
    if (options_.attend) {
      TM_ASSIGN_OR_RETURN(company, options_.attend(*run));
    }
    TM_RETURN_IF_ERROR(run->Start());
    started_ = true;
    directory_.RemoveSummary();  // of a part before this one: it no longer says how the run is
    if (!options_.fleet_url.empty()) {
      fleet_.emplace(options_.fleet_url, directory_.name());
    }
    std::unique_ptr<RunServer> dashboard = ServeDashboard(*run);
    Watch(*run);
    DriveResult result;
    const RunSnapshot before_stop = Look(*run);
    fleet_.reset();
    result.status = run->Stop();
    if (result.status.ok()) result.status = watched_.ok() ? run->Watch() : watched_;
    if (!gone_.ok()) return gone_;
    // A person who asked twice does not want to wait for the drain.
    if (signals_seen > 1 && result.status.code() == Code::kTimeout) result.status = Ok();
    result.interrupted = signals_seen > 0;
    if (const auto& lost = run->process().ranks_lost) result.ranks_lost = lost();
    if (run->loops().learner) result.step = run->loops().learner->counters().steps.load();
    RunOutcome outcome;
    outcome.status = result.status;
    outcome.interrupted = result.interrupted;
    outcome.here = outcome.last = run->Snapshot();
    earlier_.AddTo(outcome.last);
    outcome.last.seconds = before_stop.seconds;
    outcome.last.busy = before_stop.busy;
    company.reset();
    Gather(outcome);
    RecordEnd(outcome.last, before_stop);
    Flush();
    dashboard.reset();  // it shows what the run counts
    watches_.clear();
    run.reset();
    if (result.status.ok() && !result.interrupted && !finish_asked_) {
      result.status = outcome.status = CheckLesson(outcome.last);
    }
    TM_ASSIGN_OR_RETURN(result.summary_json, MakeSummary(directory_, outcome));
    TM_RETURN_IF_ERROR(directory_.WriteSummary(result.summary_json));
    return result;
  }

  // Nothing ran before this.
  bool started() const { return started_; }

 private:
  // The run as its own process and, where there is one, its fleet tell.
  RunSnapshot Look(Run& run) {
    RunSnapshot snapshot = run.Snapshot();
    earlier_.AddTo(snapshot);
    if (fleet_) fleet_->AddTo(snapshot);
    return snapshot;
  }

  // metrics.jsonl and TensorBoard's file. A resumed run goes on with the totals it had; steps that
  // it makes anew are taken back, and TensorBoard's file says what metrics.jsonl says.
  Status OpenLogs(Run& run) {
    const uint64_t step = run.loops().learner ? run.loops().learner->counters().steps.load() : 0;
    const std::string metrics = directory_.metrics_path();
    if ((config_.dashboard.tensorboard || config_.track.has("tensorboard")) && options_.run.train) {
      TM_ASSIGN_OR_RETURN(tensorboard_, TensorboardLog::Create(directory_.path() + "/tensorboard",
                                                               clock_.WallMs()));
    }
    if (options_.run.train) {
      TM_ASSIGN_OR_RETURN(tracker_, Tracker::Start(config_.track, directory_.path()));
    }
    if (options_.run.resume) {
      TM_ASSIGN_OR_RETURN(earlier_, EarlierParts::Read(metrics));
      TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(directory_.db_path()));
      TM_ASSIGN_OR_RETURN(const StoredTotals stored, StoredTotals::Read(*reader));
      earlier_.Take(stored);
      TM_ASSIGN_OR_RETURN(lesson_.before, reader->Counts());
      lesson_.drawn_before = stored.drawn;
      if (tensorboard_) TM_RETURN_IF_ERROR(tensorboard_->RestartFrom(clock_.WallMs(), 0));
      TM_RETURN_IF_ERROR(LevelMetrics(metrics, step, *reader, [this](const JournalEntry& entry) {
        return WriteScalars(entry);
      }));
      if (tensorboard_) TM_RETURN_IF_ERROR(tensorboard_->RemoveOlder());
      journal_.Record("resume", {{"step", static_cast<double>(step)}}, {});
    }
    TM_ASSIGN_OR_RETURN(MetricsLog log, MetricsLog::Open(metrics));
    log_.emplace(std::move(log));
    return Ok();
  }

  // What the run came to. Shares of the time stay comparable with those of the ticks before.
  void RecordEnd(const RunSnapshot& last, const RunSnapshot& before_stop) {
    RunSnapshot tick = last;
    tick.busy = before_stop.busy;
    tick.workers = before_stop.workers;
    tick.workers_lost = before_stop.workers_lost;
    RecordTick(journal_, tick);
  }

  // A run that taught nothing is not done.
  Status CheckLesson(const RunSnapshot& last) {
    TM_ASSIGN_OR_RETURN(auto reader, RunReader::Open(directory_.db_path()));
    TM_ASSIGN_OR_RETURN(const RunCounts counts, reader->Counts());
    TM_ASSIGN_OR_RETURN(const TokenUse tokens, reader->Tokens());
    // Whether clients come, and say what they think, is not the run's doing.
    lesson_.steps =
        options_.run.train && RunStepsOf(config_) > lesson_.before.steps && !config_.live.on;
    lesson_.tokens = lesson_.steps && !config_.memory.only;
    RunSnapshot part = last;
    const RunSnapshot earlier = earlier_.Last();
    for (auto& [name, count] : part.counts) count -= std::min(count, earlier[name]);
    return CheckTaught(counts, tokens, part, lesson_);
  }

  void Gather(RunOutcome& outcome) {
    if (options_.fleet_url.empty()) return;
    Result<FleetAccount> fleet = GatherFleet(options_.fleet_url, directory_.name());
    if (fleet.ok()) {
      AddFleetWork(*fleet, outcome.last);
      outcome.fleet = std::move(*fleet);
    } else {
      outcome.fleet_silent = fleet.status().message();
      LogWarn("the summary lacks the work of other processes", {{"why", outcome.fleet_silent}});
    }
  }

  std::unique_ptr<RunServer> ServeDashboard(Run& of) {
    if (!options_.web) return nullptr;
    const std::string& path = directory_.path();
    DashboardRun run{path.substr(0, path.size() - directory_.name().size() - 1), directory_.name(),
                     [this] { finish_asked_ = true; }, options_.run.metrics, options_.fleet_url};
    if (Gateway* gateway = of.process().gateway) {
      run.gateway = [gateway] { return gateway->FiguresJson(); };
    }
    auto server = StartDashboard(*options_.web, config_.dashboard.if_taken, run);
    if (server && options_.display != nullptr) {
      std::fprintf(stderr, "dashboard: %s\n", server->url().c_str());
    }
    return server;
  }

  void Watch(Run& run) {
    double next_tick = 0;
    bool finishing = false, interrupted = false;
    while (!run.Done() && !run.Ended()) {
      std::this_thread::sleep_for(milliseconds(50));
      gone_ = directory_.CheckThere();
      if (!gone_.ok()) return;
      const RunSnapshot snapshot = Look(run);
      if (snapshot.seconds >= next_tick) {
        RecordTick(journal_, snapshot);
        if (const std::string text = lessons_->Look(snapshot); !text.empty()) {
          journal_.Record("warning", {{"step", static_cast<double>(snapshot["steps"])}},
                          {{"what", text}});
        }
        CheckPorts(run);
        next_tick = snapshot.seconds + 1;
      }
      Flush();
      for (LiveWatch* watch : watches_) watch->Tick();
      if (options_.display != nullptr) options_.display->Show(snapshot);
      const bool out_of_time =
          config_.run.minutes > 0 && Seconds(run.age()) > config_.run.minutes * 60;
      if ((out_of_time || finish_asked_) && !finishing) {
        finishing = true;
        run.FinishSoon();
      }
      if (signals_seen > 0 && !interrupted) {
        interrupted = true;
        LogInfo("finishing the step and saving; press Ctrl-C again to stop at once");
        run.Interrupt();
      }
      if (!hopeless_ && lessons_->Hopeless(snapshot)) {
        hopeless_ = true;
        LogError("no episode can be scored; ending the run");
        run.Interrupt();
      }
      // An interrupted run does not evaluate once more: it ends when its last step is saved.
      const bool stopping = signals_seen > 0 || hopeless_ || !watched_.ok();
      if (signals_seen > 1 || (stopping && (run.LearnerDone() || !options_.run.train))) return;
    }
  }

  // A port that cannot go on ends the run; what was done so far is saved.
  void CheckPorts(Run& run) {
    if (!watched_.ok()) return;
    watched_ = run.Watch();
    if (watched_.ok()) return;
    LogError("ending the run", {{"why", watched_.message()}});
    journal_.Record("warning", {}, {{"what", watched_.message()}});
    run.Interrupt();
  }

  void Flush() {
    for (const JournalEntry& entry : journal_.TakeAll()) {
      if (const Status status = log_->Append(entry.ToJson()); !status.ok()) {
        LogOnce("metrics", LogLevel::kWarn, status.ToString());
      }
      if (const Status status = WriteScalars(entry); !status.ok()) {
        LogOnce("scalars", LogLevel::kWarn, status.ToString());
      }
      for (BestCheckpoint& best : best_) best.Take(entry);
      if (options_.display != nullptr) options_.display->Show(entry);
    }
  }

  // One axis for all: the learner's step.
  Status WriteScalars(const JournalEntry& entry) {
    const ScalarPoint point = scalars_.Take(entry);
    if (point.scalars.empty()) return Ok();
    if (tracker_) TM_RETURN_IF_ERROR(tracker_->Append(entry.at_ms, point.step, point.scalars));
    return tensorboard_ ? tensorboard_->Append(entry.at_ms, point.step, point.scalars) : Ok();
  }

  RealClock clock_;
  const RunConfig& config_;
  RunDirectory& directory_;
  DriveOptions options_;
  std::optional<MetricsLog> log_;
  RunJournal journal_;
  Metrics metrics_;
  std::atomic<bool> finish_asked_{false};
  Status gone_;     // not ok: the run's directory is
  Status watched_;  // what the ports said last
  std::optional<FleetWatch> fleet_;
  std::optional<TensorboardLog> tensorboard_;
  std::unique_ptr<Tracker> tracker_;
  RunScalars scalars_;
  EarlierParts earlier_;
  std::vector<BestCheckpoint> best_;  // of each policy that is trained
  std::optional<LessonWatch> lessons_;
  Lesson lesson_;
  std::vector<LiveWatch*> watches_;  // the run's
  bool hopeless_ = false;
  bool started_ = false;
};

}  // namespace

Result<DriveResult> DriveRun(const RunConfig& config, RunDirectory& directory,
                             const DriveOptions& options) {
  if (const BlasInfo blas = CheckBlas(); !blas.warning.empty()) {
    LogWarn(blas.warning, {{"fix", blas.fix}});
  }
  Result<DriveResult> result = Unavailable("not driven");
  bool started = false;
  {
    Driver driver(config, directory, options);
    result = driver.Drive();
    started = driver.started();
  }
  if (!result.ok() && !started && !options.run.resume) directory.Discard();
  return result;
}

}  // namespace tidemill
