#include "run/run_driver.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "core/blas.h"
#include "core/log.h"
#include "core/metrics.h"
#include "observe/tensorboard_log.h"
#include "run/fleet_watch.h"
#include "run/run_dashboard.h"
#include "run/run_journal.h"
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

// So many batches' worth of episodes without a step are remarkable.
constexpr uint64_t kFruitlessSteps = 8;

class Driver {
 public:
  Driver(const RunConfig& config, RunDirectory& directory, const DriveOptions& options,
         MetricsLog log)
      : config_(config),
        directory_(directory),
        options_(options),
        log_(std::move(log)),
        journal_(clock_) {}

  Result<DriveResult> Drive() {
    if (options_.run.metrics == nullptr) options_.run.metrics = &metrics_;
    options_.run.directory = &directory_;
    options_.run.journal = &journal_;
    TM_ASSIGN_OR_RETURN(auto run, OpenRun(config_, options_.run));
    for (const std::string& warning : run->warnings()) LogWarn(warning);
    if (config_.dashboard.tensorboard && options_.run.train) {
      TM_ASSIGN_OR_RETURN(tensorboard_, TensorboardLog::Create(directory_.path() + "/tensorboard",
                                                               clock_.WallMs()));
    }
    SignalCounter signals;
    std::shared_ptr<void> company;
    if (options_.attend) {
      TM_ASSIGN_OR_RETURN(company, options_.attend(*run));
    }
    TM_RETURN_IF_ERROR(run->Start());
    if (!options_.fleet_url.empty()) {
      fleet_.emplace(options_.fleet_url, directory_.name());
    }
    std::unique_ptr<RunServer> dashboard = ServeDashboard();
    Watch(*run);
    DriveResult result;
    const RunSnapshot before_stop = Look(*run);
    fleet_.reset();
    result.status = run->Stop();
    if (!gone_.ok()) return gone_;
    // A person who asked twice does not want to wait for the drain.
    if (signals_seen > 1 && result.status.code() == Code::kTimeout) result.status = Ok();
    result.interrupted = signals_seen > 0;
    result.ranks_lost = run->host().ranks_lost();
    RunOutcome outcome;
    outcome.status = result.status;
    outcome.interrupted = result.interrupted;
    outcome.last = run->Snapshot();
    outcome.last.seconds = before_stop.seconds;
    outcome.last.busy = before_stop.busy;
    company.reset();
    Gather(outcome);
    RecordEnd(outcome.last, before_stop);
    Flush();
    dashboard.reset();  // it shows what the run counts
    run.reset();
    TM_ASSIGN_OR_RETURN(result.summary_json, MakeSummary(directory_, outcome));
    TM_RETURN_IF_ERROR(directory_.WriteSummary(result.summary_json));
    return result;
  }

 private:
  // The run as its own process and, where there is one, its fleet tell.
  RunSnapshot Look(Run& run) {
    RunSnapshot snapshot = run.Snapshot();
    if (fleet_) fleet_->AddTo(snapshot);
    return snapshot;
  }

  // What the run came to. Shares of the time stay comparable with those of the ticks before.
  void RecordEnd(const RunSnapshot& last, const RunSnapshot& before_stop) {
    RunSnapshot tick = last;
    tick.busy = before_stop.busy;
    tick.workers = before_stop.workers;
    tick.workers_lost = before_stop.workers_lost;
    RecordTick(journal_, tick);
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

  std::unique_ptr<RunServer> ServeDashboard() {
    if (!options_.web) return nullptr;
    const std::string& path = directory_.path();
    DashboardRun run{path.substr(0, path.size() - directory_.name().size() - 1), directory_.name(),
                     [this] { finish_asked_ = true; }, options_.run.metrics, options_.fleet_url};
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
        WarnOfNothingToLearn(snapshot);
        next_tick = snapshot.seconds + 1;
      }
      Flush();
      if (options_.display != nullptr) options_.display->Show(snapshot);
      const bool out_of_time =
          config_.run.minutes > 0 && snapshot.seconds > config_.run.minutes * 60;
      if ((out_of_time || finish_asked_) && !finishing) {
        finishing = true;
        run.FinishSoon();
      }
      if (signals_seen > 0 && !interrupted) {
        interrupted = true;
        LogInfo("finishing the step and saving; press Ctrl-C again to stop at once");
        run.Interrupt();
      }
      // An interrupted run does not evaluate once more: it ends when its last step is saved.
      if (signals_seen > 1 || (signals_seen > 0 && (run.LearnerDone() || !options_.run.train)))
        return;
    }
  }

  // Groups whose rewards are all equal, or that something of ours spoiled, never become a step: say
  // so before somebody waits for one.
  void WarnOfNothingToLearn(const RunSnapshot& s) {
    // Evaluation is not training: its episodes are not meant to teach.
    if (s["steps"] != steps_seen_ || s["evaluating"] > 0) {
      steps_seen_ = s["steps"];
      fruitless_from_ = s["episodes_finished"];
    }
    const uint64_t fruitless = s["episodes_finished"] - fruitless_from_;
    if (!options_.run.train || s["ready_episodes"] > 0 ||
        fruitless < kFruitlessSteps * config_.batch_episodes()) {
      return;
    }
    fruitless_from_ = s["episodes_finished"];
    const std::string text = std::to_string(fruitless) +
                             " episodes without a training step: so far " +
                             std::to_string(s["zero_variance"]) +
                             " in groups whose rewards are all equal (tasks too hard "
                             "or too easy, or a reward that is too coarse), " +
                             std::to_string(s["stale"]) + " stale (see stale_by_cause), " +
                             std::to_string(s["too_old"]) + " too old";
    journal_.Record("warning", {{"step", static_cast<double>(s["steps"])}}, {{"what", text}});
  }

  void Flush() {
    for (const JournalEntry& entry : journal_.TakeAll()) {
      if (const Status status = log_.Append(entry.ToJson()); !status.ok()) {
        LogOnce("metrics", LogLevel::kWarn, status.ToString());
      }
      if (tensorboard_) WriteScalars(entry);
      if (options_.display != nullptr) options_.display->Show(entry);
    }
  }

  // One axis for all: the learner's step. The totals are those of the second before it.
  void WriteScalars(const JournalEntry& entry) {
    if (entry.kind == "tick") last_tick_ = entry.numbers;
    if (entry.kind != "step" && entry.kind != "eval") return;
    const auto step = entry.numbers.find("step");
    const auto name = entry.words.find("name");
    const std::string prefix =
        entry.kind == "step" ? "step/"
                             : "eval/" + (name == entry.words.end() ? "" : name->second) + "/";
    std::map<std::string, double> scalars;
    for (const auto& [key, number] : entry.numbers) {
      if (key != "step") scalars[prefix + key] = number;
    }
    if (entry.kind == "step") {
      for (const auto& [key, number] : last_tick_) scalars["run/" + key] = number;
    }
    const auto at = step == entry.numbers.end() ? 0 : static_cast<int64_t>(step->second);
    if (const Status status = tensorboard_->Append(entry.at_ms, at, scalars); !status.ok()) {
      LogOnce("tensorboard", LogLevel::kWarn, status.ToString());
    }
  }

  uint64_t steps_seen_ = 0;
  uint64_t fruitless_from_ = 0;  // episodes finished when the last step, or warning, came
  RealClock clock_;
  const RunConfig& config_;
  RunDirectory& directory_;
  DriveOptions options_;
  MetricsLog log_;
  RunJournal journal_;
  Metrics metrics_;
  std::atomic<bool> finish_asked_{false};
  Status gone_;  // not ok: the run's directory is
  std::optional<FleetWatch> fleet_;
  std::optional<TensorboardLog> tensorboard_;
  Numbers last_tick_;
};

}  // namespace

Result<DriveResult> DriveRun(const RunConfig& config, RunDirectory& directory,
                             const DriveOptions& options) {
  if (const BlasInfo blas = CheckBlas(); !blas.warning.empty()) {
    LogWarn(blas.warning, {{"fix", blas.fix}});
  }
  TM_ASSIGN_OR_RETURN(MetricsLog log, MetricsLog::Open(directory.metrics_path()));
  return Driver(config, directory, options, std::move(log)).Drive();
}

}  // namespace tidemill
