// A process of a run: its ports, its loops and the threads that run them. `tidemill train` is a
// process with every role, `tidemill worker ROLE` one with a single role.
//
//   OpenRun(config, request) -> hosts (run/host.h) -> Assemble -> Run -> Start
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/loop_runner.h"
#include "run/assembly.h"
#include "run/process.h"
#include "run/run_journal.h"
#include "run/run_snapshot.h"

namespace tidemill {

class Run {
 public:
  // `runner` is made before the process: topics and mailboxes wake its loops to the last.
  Run(std::unique_ptr<LoopRunner> runner, std::unique_ptr<Process> process, Loops loops);
  ~Run();

  Status Start();
  // Finish the step under way, save, evaluate and end. From any thread.
  void FinishSoon();
  // The same without evaluating: nothing is begun any more, here or in a fleet. From any thread.
  void Interrupt();
  // Everything that was to be done is done.
  bool Done() const;
  // The last step is published and saved; evaluations may still run.
  bool LearnerDone() const;
  // The loops have ended, within `limit` at the latest.
  bool Ended(Duration limit = Duration(0));
  // Stops the loops in order. The status names the loop that failed, if one did.
  Status Stop(Duration patience = std::chrono::seconds(20));

  RunSnapshot Snapshot() const;
  // Since Start; 0 before.
  Duration age() const {
    const Time started = started_;
    return started == Time::min() ? Duration(0) : process_->clock.Now() - started;
  }
  // The loop that does not move; empty: all do.
  std::string StuckLoop() const { return tidemill::StuckLoop(runner_->Usage()); }
  std::vector<LoopUsage> LoopUsages() const { return runner_->Usage(); }

  const Loops& loops() const { return loops_; }
  const Process& process() const { return *process_; }
  // Of all ports.
  std::vector<PortUse> PortUses() const;
  // As Host::Watch, of all.
  Status Watch();
  // Its name on the bus; nobody else, and no process of the role before it, has it.
  const std::string& worker() const { return process_->start.worker; }

 private:
  const std::unique_ptr<LoopRunner> runner_;
  const std::unique_ptr<Process> process_;
  const Loops loops_;
  std::atomic<Time> started_{Time::min()};  // others ask from their threads
  bool running_ = false;
};

// Loads, checks and wires everything; nothing runs yet. Failures name the file or key.
Result<std::unique_ptr<Run>> OpenRun(const RunConfig& config, const RunRequest& request);

}  // namespace tidemill
