#include "live/live_run.h"

#include "core/loop_runner.h"
#include "live/prompt_builder.h"
#include "store/run_db.h"
#include "store/run_directory.h"
#include "store/store_thread.h"

namespace tidemill {
namespace {

// Closed sessions that may go on after a restart: of the last day, and not more than these.
constexpr int64_t kRememberMs = 24 * 3600 * 1000;
constexpr size_t kRemember = 1000;

}  // namespace

// In the order they are made; each uses those above.
struct LiveRun::Parts {
  explicit Parts(RunDirectory dir) : directory(std::move(dir)) {}

  RunDirectory directory;
  std::unique_ptr<TemplatePromptBuilder> builder;
  std::unique_ptr<StoreThread> store;
  std::unique_ptr<StorePort> client;
  std::unique_ptr<LiveRecorder> recorder;
  std::unique_ptr<LoopRunner> runner;
};

LiveRun::LiveRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LiveRun::~LiveRun() {
  if (parts_->runner) (void)Stop();
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
  auto parts = std::make_unique<Parts>(std::move(*directory));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(parts->directory.db_path(), clock));
  TM_ASSIGN_OR_RETURN(const SessionsState sessions,
                      db->LoadSessions(clock.WallMs() - kRememberMs, kRemember));
  parts->builder = std::make_unique<TemplatePromptBuilder>(policy);
  parts->store = std::make_unique<StoreThread>(std::move(db), clock);
  parts->client = parts->store->NewClient(kStoreClientCapacity);
  parts->recorder =
      std::make_unique<LiveRecorder>(options, *parts->builder, *parts->client, clock, sessions);
  parts->runner = std::make_unique<LoopRunner>();
  parts->runner->Add(*parts->recorder);
  TM_RETURN_IF_ERROR(parts->runner->Start());
  return std::unique_ptr<LiveRun>(new LiveRun(std::move(parts)));
}

Result<TurnPrompt> LiveRun::Prepare(const TurnQuestion& question) {
  return parts_->recorder->Prepare(question);
}

void LiveRun::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  parts_->recorder->Finished(std::move(turn), std::move(stored));
}

void LiveRun::Abandoned(RecordedTurn turn, const Status& why) {
  parts_->recorder->Abandoned(std::move(turn), why);
}

void LiveRun::Sink(MetricSink& sink) const {
  SinkCounters(parts_->recorder->counters(), sink);
}

Status LiveRun::Stop() {
  const Status drained = parts_->runner->Drain(std::chrono::seconds(30));
  parts_->store->Stop();
  parts_->runner.reset();
  return drained;
}

}  // namespace tidemill
