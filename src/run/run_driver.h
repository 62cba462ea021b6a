// Sees a run through: starts it, shows it, writes its metrics, stops it when it is done or asked
// to, and leaves its summary.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/http_server.h"
#include "run/fleet_account.h"
#include "run/run.h"
#include "run/run_config.h"
#include "store/run_directory.h"

namespace tidemill {

// Shows a run to a person while it goes on. Called by the driver's thread alone.
class RunDisplay {
 public:
  virtual ~RunDisplay() = default;
  virtual void Show(const JournalEntry& entry) = 0;
  // Now and then; decides itself how often to draw.
  virtual void Show(const RunSnapshot& snapshot) = 0;
};

struct DriveOptions {
  RunRequest run;
  RunDisplay* display = nullptr;   // null: nothing is shown; must outlive the drive
  std::optional<HttpOptions> web;  // the dashboard; empty: none
  // Makes what accompanies the run (how others see it, say) once it is wired and before it starts;
  // that is gone before the run is. May be empty.
  std::function<Result<std::shared_ptr<void>>(Run&)> attend;
  std::string fleet_url;  // the bus of a run whose other roles are processes; empty: there are none
};

// The summary as JSON, also written to the run's directory. The first Ctrl-C (or SIGTERM) finishes
// the step, saves and ends; the second ends at once. Failures of a loop are in the summary's
// status, and returned; so is a run that taught nothing (run/lesson_watch.h). A new run that could
// not be started leaves no directory behind.
struct DriveResult {
  std::string summary_json;
  Status status;
  bool interrupted = false;
  int ranks_lost = 0;  // of the learner; why it failed. It can go on without them.
  uint64_t step = 0;   // that the learner reached
};
Result<DriveResult> DriveRun(const RunConfig& config, RunDirectory& directory,
                             const DriveOptions& options);

}  // namespace tidemill
