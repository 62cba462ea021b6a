// What the fleet does while the run goes on, for its metrics, its terminal and its page: the roster
// is read on a thread of its own, every two seconds as heartbeats come.
//
//   the run's roster and totals -> FleetWatch -> RunSnapshot of the learner -> metrics.jsonl
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bus/run_inspector.h"
#include "core/mutex.h"
#include "core/status.h"
#include "observe/fleet_busy.h"
#include "run/run_snapshot.h"

namespace tidemill {

// Thread-safe. While the broker does not answer, what was known last stays.
class FleetWatch {
 public:
  // Reads once before it returns.
  FleetWatch(std::string url, std::string run);
  ~FleetWatch();
  FleetWatch(const FleetWatch&) = delete;

  // Puts the work of other processes, and who is there, into a learner's snapshot.
  void AddTo(RunSnapshot& snapshot);

 private:
  void Run();
  Status Read();

  const std::string url_, run_;
  std::unique_ptr<RunInspector> inspector_;  // of the thread alone, once there is one
  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  RosterTotals totals_ TM_GUARDED_BY(mutex_);
  std::vector<RosterEntry> workers_ TM_GUARDED_BY(mutex_);
  FleetBusy busy_ TM_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tidemill
