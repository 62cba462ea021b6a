// A process that serves one role of a run on the broker of a fleet. It joins and leaves at any
// time: when it is asked to stop it takes nothing new, finishes or gives back what it holds, and
// leaves.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bus/roster.h"
#include "core/clock.h"
#include "observe/worker_beacon.h"
#include "run/run.h"

namespace tidemill {

// A process's report to the roster: every total and level its loops count, and how busy
// its loops and ports are.
WorkerReport ReportOf(const Run& run);

// Runs the loops of `run` until a signal asks to stop or `ended` (asked about once a second; may be
// empty) says that the run is done, then drains them. `beacon` has everything but the report.
// Failures name the loop, or what the worker cannot go on without.
Status ServeWorker(Run& run, WorkerBeaconOptions beacon, const std::function<bool()>& ended = {});

// In the roster while it waits for a learner, so that people see it. Belongs to one thread.
class WaitingWorker {
 public:
  explicit WaitingWorker(const WorkerBeaconOptions& beacon);
  // Left without ever having served.
  ~WaitingWorker();
  WaitingWorker(const WaitingWorker&) = delete;
  WaitingWorker& operator=(const WaitingWorker&) = delete;

  // Beats when it is time to; a broker that does not answer is asked again later.
  void Waiting();

 private:
  const std::string url_;
  const std::string run_;
  v1::Heartbeat beat_;
  std::unique_ptr<Roster> roster_;
  Time next_ = Time::min();
};

}  // namespace tidemill
