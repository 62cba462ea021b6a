#include "live/live_run.h"

#include <chrono>
#include <optional>
#include <thread>

#include "core/loop_runner.h"
#include "live/erase_bus.h"
#include "live/prompt_builder.h"
#include "store/run_db.h"
#include "store/run_directory.h"
#include "store/store_thread.h"

namespace tidemill {
namespace {

// Closed sessions that may go on after a restart: of the last day, and not more than these.
constexpr int64_t kRememberMs = 24 * 3600 * 1000;
constexpr size_t kRemember = 1000;
constexpr size_t kRememberTrajectories = 20'000;
constexpr int kUntaughtTries = 300;
constexpr auto kUntaughtPause = std::chrono::milliseconds(100);

}  // namespace

// In the order they are made; each uses those above.
struct LiveRun::Parts {
  std::optional<RunDirectory> directory;  // none: the run's own process has it
  std::string path;                       // then: where it is
  std::unique_ptr<StoreThread> store;     // null: as above
  std::unique_ptr<TemplatePromptBuilder> builder;
  std::unique_ptr<StorePort> client;
  std::unique_ptr<LiveRecorder> recorder;
  std::unique_ptr<LoopRunner> runner;  // null: the run steps the recorder
  std::vector<Eraser> erasers;
  std::function<void(const std::string&)> forget_pages{};  // may be empty
};

LiveRun::LiveRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LiveRun::~LiveRun() {
  if (parts_->runner) (void)Stop();
}

Result<LiveRun::Earlier> LiveRun::Load(RunDb& db, const Clock& clock) {
  Earlier earlier;
  TM_ASSIGN_OR_RETURN(earlier.sessions, db.LoadSessions(clock.WallMs() - kRememberMs, kRemember));
  TM_ASSIGN_OR_RETURN(earlier.live, db.LoadLive(kRememberTrajectories));
  return earlier;
}

void LiveRun::Begin(StoreThread& store, const Earlier& earlier, const ServedPolicy& policy,
                    const Clock& clock, const LiveOptions& options, const LiveLearning& learning) {
  parts_->builder = std::make_unique<TemplatePromptBuilder>(policy);
  parts_->client = store.NewClient(kStoreClientCapacity);
  parts_->recorder = std::make_unique<LiveRecorder>(
      options, *parts_->builder, *parts_->client, clock, earlier.sessions, earlier.live, learning);
}

Result<std::unique_ptr<LiveRun>> LiveRun::Open(const std::string& runs_root,
                                               const std::string& name,
                                               std::string_view config_toml,
                                               const ServedPolicy& policy, const Clock& clock,
                                               const LiveOptions& options) {
  TM_RETURN_IF_ERROR(CheckRunName(name));
  auto directory = RunDirectory::OpenToResume(runs_root, name);
  if (!directory.ok() && directory.status().code() == Code::kNotFound) {
    directory = RunDirectory::Create(runs_root, name, config_toml);
  }
  if (!directory.ok()) return directory.status();
  auto parts = std::make_unique<Parts>();
  parts->directory.emplace(std::move(*directory));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(parts->directory->db_path(), clock));
  TM_ASSIGN_OR_RETURN(const Earlier earlier, Load(*db, clock));
  parts->store = std::make_unique<StoreThread>(std::move(db), clock);
  StoreThread& store = *parts->store;
  std::unique_ptr<LiveRun> run(new LiveRun(std::move(parts)));
  run->Begin(store, earlier, policy, clock, options, {});
  run->parts_->runner = std::make_unique<LoopRunner>();
  run->parts_->runner->Add(run->loop());
  TM_RETURN_IF_ERROR(run->parts_->runner->Start());
  return run;
}

Result<std::unique_ptr<LiveRun>> LiveRun::Join(StoreThread& store, const Earlier& earlier,
                                               const ServedPolicy& policy, const Clock& clock,
                                               const LiveOptions& options,
                                               const LiveLearning& learning) {
  std::unique_ptr<LiveRun> run(new LiveRun(std::make_unique<Parts>()));
  run->Begin(store, earlier, policy, clock, options, learning);
  if (Bus* const bus = learning.bus; bus != nullptr) {
    run->Add({"dead letters",
              [bus](const EraseNames& names) { return EraseDeadLetters(*bus, names.sessions); }});
  }
  return run;
}

Loop& LiveRun::loop() {
  return parts_->recorder->loop();
}

Result<TurnPrompt> LiveRun::Prepare(const TurnQuestion& question) {
  return parts_->recorder->Prepare(question);
}

void LiveRun::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  parts_->recorder->Finished(std::move(turn), std::move(stored));
}

void LiveRun::Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) {
  parts_->recorder->Abandoned(std::move(turn), loss, why);
}

void LiveRun::TakeFeedback(const FeedbackPost& post,
                           std::function<void(Result<std::string>)> answered) {
  parts_->recorder->TakeFeedback(post, std::move(answered));
}

Result<EraseReport> LiveRun::Erase(const EraseWhat& what) {
  EraseWhat all = what;
  all.under_way = parts_->recorder->Erase(what);
  TM_ASSIGN_OR_RETURN(const auto stored, SessionsToErase(path() + "/run.db", what));
  parts_->recorder->Forget(stored);
  // The lines below list the steps that used it: no batch may take it from here on.
  for (int i = 0; !parts_->recorder->Untaught(); ++i) {
    if (i == kUntaughtTries) return Unavailable("replay does not take messages; delete again");
    std::this_thread::sleep_for(kUntaughtPause);
  }
  TM_ASSIGN_OR_RETURN(EraseReport report, EraseFromRun(path(), all, parts_->erasers));
  if (parts_->forget_pages) {
    for (const std::string& tenant : report.erased.tenants) parts_->forget_pages(tenant);
  }
  return report;
}

void LiveRun::Add(Eraser eraser) {
  parts_->erasers.push_back(std::move(eraser));
}

void LiveRun::OnErased(std::function<void(const std::string&)> forget) {
  parts_->recorder->OnErased(forget);
  parts_->forget_pages = std::move(forget);
}

void LiveRun::BelongsTo(const std::string& run_path) {
  parts_->path = run_path;
}

const std::string& LiveRun::path() const {
  return parts_->directory ? parts_->directory->path() : parts_->path;
}

std::string LiveRun::QuarantineJson() const {
  return parts_->recorder->QuarantineJson();
}

Status LiveRun::Decide(const std::string& tenant, bool train) {
  return parts_->recorder->Decide(tenant, train);
}

void LiveRun::Sink(MetricSink& sink) const {
  SinkCounters(parts_->recorder->counters(), sink);
  sink.Gauge("tidemill_live_baseline_variance",
             "Variance of the rewards within the windows that baselines are taken over",
             parts_->recorder->BaselineVariance());
}

const CounterSet& LiveRun::counters() const {
  return parts_->recorder->counters();
}

Status LiveRun::Stop() {
  const Status drained = parts_->runner->Drain(std::chrono::seconds(30));
  if (parts_->store) parts_->store->Stop();
  parts_->runner.reset();
  return drained;
}

}  // namespace tidemill
