// Sessions of the gateway kept in a run directory: what `tidemill serve --run NAME` records with.
//
//   Open(runs/NAME) -> open sessions from run.db -> recorder() -> .. -> Stop()
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/status.h"
#include "gateway/served_policy.h"
#include "live/live_recorder.h"

namespace tidemill {

// Thread-safe after Open.
class LiveRun {
 public:
  // Makes the run, or goes on with it. `policy` and `clock` must outlive it. kUnavailable: another
  // process writes the run. kInvalid: no name for a run, or a run of a newer program.
  static Result<std::unique_ptr<LiveRun>> Open(const std::string& runs_root,
                                               const std::string& name,
                                               std::string_view config_toml,
                                               const ServedPolicy& policy, const Clock& clock,
                                               const LiveOptions& options);
  // Stops.
  ~LiveRun();

  LiveRecorder& recorder();
  // The run's directory.
  const std::string& path() const;
  // Ok, or why the disk refuses at this moment.
  Status health() const;
  // When no request is under way any more: waits until all is durable. Afterwards nothing may be
  // recorded.
  Status Stop();

 private:
  struct Parts;
  explicit LiveRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidemill
