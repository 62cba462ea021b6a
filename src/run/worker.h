// A process that serves one role of a run on Redis Streams. It joins and leaves at any time: when
// it is asked to stop it takes nothing new, finishes or gives back what it holds, and leaves.
#pragma once

#include <string>

#include "observe/worker_beacon.h"
#include "run/run.h"

namespace tidemill {

// What a process tells the roster of itself: every total and level its loops count, and how busy
// its loops and ports are.
WorkerReport ReportOf(const Run& run);

// Runs the loops of `run` until a signal asks to stop, then drains them. `beacon` has everything
// but the report. Failures name the loop, or what the worker cannot go on without.
Status ServeWorker(Run& run, WorkerBeaconOptions beacon);

}  // namespace tidemill
