// Sessions of the gateway kept in a run: what `tidemill serve --run NAME` records with, and what a
// run with live.on records with and learns from.
//
//   Open(runs/NAME) | Join(a run's store) -> open sessions -> LiveRecorder -> .. -> Stop()
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/status.h"
#include "gateway/served_policy.h"
#include "live/erase.h"
#include "live/live_recorder.h"
#include "store/run_db.h"
#include "store/store_thread.h"

namespace tidemill {

// Thread-safe after Open.
class LiveRun final : public TurnRecorder {
 public:
  // Makes the run, or goes on with it. `policy` and `clock` must outlive it. kUnavailable: another
  // process writes the run. kInvalid: no name for a run, or a run of a newer program.
  static Result<std::unique_ptr<LiveRun>> Open(const std::string& runs_root,
                                               const std::string& name,
                                               std::string_view config_toml,
                                               const ServedPolicy& policy, const Clock& clock,
                                               const LiveOptions& options);
  // The state an earlier process left, read before the database belongs to the store's thread.
  struct Earlier {
    SessionsState sessions;
    LiveState live;
  };
  static Result<Earlier> Load(RunDb& db, const Clock& clock);
  // Of a run that has a store already; it must outlive this, as all that is given by reference. The
  // run steps loop().
  static Result<std::unique_ptr<LiveRun>> Join(StoreThread& store, const Earlier& earlier,
                                               const ServedPolicy& policy, const Clock& clock,
                                               const LiveOptions& options,
                                               const LiveLearning& learning);
  // Stops, where it opened the run.
  ~LiveRun() override;
  Loop& loop();

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override;
  void Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) override;
  void TakeFeedback(const FeedbackPost& post,
                    std::function<void(Result<std::string>)> answered) override;

  // Deletes sessions, in memory and on disk, while requests go on. As EraseFromRun; any thread.
  Result<EraseReport> Erase(const EraseWhat& what);
  // Called with the tenant whose cached prompts are to be forgotten. Before the first deletion.
  void OnErased(std::function<void(const std::string& tenant)> forget);
  // Of a part that keeps something of sessions, and outlives this. Before the first deletion.
  void Add(Eraser eraser);
  const std::string& path() const;  // of the run
  // Of one that joined: where the run is. Before the first deletion.
  void BelongsTo(const std::string& run_path);

  // As those of LiveRecorder.
  std::string QuarantineJson() const;
  Status Decide(const std::string& tenant, bool train);

  // The figures of sessions.
  void Sink(MetricSink& sink) const;
  const CounterSet& counters() const;
  // Of one that opened the run, when no request is under way any more: waits until all is durable.
  // Afterwards nothing may be recorded.
  Status Stop();

 private:
  struct Parts;
  explicit LiveRun(std::unique_ptr<Parts> parts);
  void Begin(StoreThread& store, const Earlier& earlier, const ServedPolicy& policy,
             const Clock& clock, const LiveOptions& options, const LiveLearning& learning);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidemill
