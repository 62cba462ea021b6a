// What the roles of `tidemill worker` share. cmd_worker.cc has the command, the loop that serves
// and the two roles that need little; worker_rollout.cc and worker_learner.cc have the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "config/run_config.h"
#include "core/clock.h"
#include "core/loop.h"
#include "core/loop_runner.h"
#include "core/metrics.h"
#include "observe/worker_beacon.h"
#include "run/run_sheet.h"

namespace tidemill {

struct WorkerArguments {
  std::string role, url, run, config_file;
  std::vector<std::string> sets;
  bool resume = false, json = false, no_web = false;
  std::string metrics_address = "127.0.0.1", metrics_token_file;
  uint16_t metrics_port = 0;
};

// What every role but the learner has.
struct Worker {
  LoopRunner& runner;  // outlives bus and ports, which wake its loops to the last
  RedisBus& bus;
  const RunConfig& config;
  const Clock& clock;
  Metrics& metrics;
  WorkerBeaconOptions beacon;  // all but `report`

  const std::string& name() const { return beacon.worker; }
};

struct ServeLoopOptions {
  std::function<WorkerReport()> report;  // what it does, for others to see
  std::function<Status()> watch;         // called every second; not ok: leave, and say why
  std::vector<std::string> own_topics;   // removed in the end: nobody else reads them
  Duration drain_patience = std::chrono::seconds(30);
};

// Runs the loop until a signal asks to stop, then drains it. Returns the exit status.
int ServeLoop(Loop& loop, Worker& worker, ServeLoopOptions options);

// kClosed: asked to stop first. kInvalid: the run speaks other messages than this program.
Result<RunSheet> WaitForSheet(SheetBoard& board, const std::string& run);

int RunRollout(Worker& worker, RunSheet sheet);
int RunLearner(const WorkerArguments& arguments, WorkerBeaconOptions beacon);

}  // namespace tidemill
