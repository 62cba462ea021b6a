// Sessions of the gateway kept in a run directory: what `tidemill serve --run NAME` records with.
//
//   Open(runs/NAME) -> open sessions from run.db -> LiveRecorder -> .. -> Stop()
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/status.h"
#include "gateway/served_policy.h"
#include "live/live_recorder.h"

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
  // Stops.
  ~LiveRun() override;

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override;
  void Abandoned(RecordedTurn turn, const Status& why) override;

  // The figures of sessions.
  void Sink(MetricSink& sink) const;
  // When no request is under way any more: waits until all is durable. Afterwards nothing may be
  // recorded.
  Status Stop();

 private:
  struct Parts;
  explicit LiveRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidemill
