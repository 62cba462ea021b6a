// A process of a run: its ports, its loops and the threads that run them. `tidemill train` is a
// process with every role, `tidemill worker ROLE` one with a single role.
//
//   OpenRun(config, request) -> ports (run/torch/process_ports.h) -> Assemble -> Run -> Start
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/loop_runner.h"
#include "run/assembly.h"
#include "run/run_journal.h"
#include "run/run_sheet.h"
#include "run/run_snapshot.h"
#include "store/run_directory.h"

namespace tidemill {

class Metrics;
class LiveWatch;
class RedisBus;
class WeightPublisher;

// What owns the ports of a process and everything below them.
class PortHost {
 public:
  virtual ~PortHost() = default;
  virtual const Ports& ports() const = 0;

  struct Use {
    std::string name;
    Duration busy{};
    int slots = 1;
  };
  // Working time so far of every port that is here.
  virtual std::vector<Use> Usage() const = 0;
  // What others may want to know of it now, such as how many calls fit at once.
  virtual std::map<std::string, double> Levels() const { return {}; }
  // Counters of loops that the ports run themselves.
  virtual std::vector<const CounterSet*> counters() const { return {}; }
  // What only a port knows: boxes opened, connections made again.
  virtual void Sink(MetricSink& sink) const = 0;
  // Topics of the bus that nobody else reads; removed when the process leaves.
  virtual std::vector<std::string> own_topics() const { return {}; }
  // Ranks of the learner that died or hung.
  virtual int ranks_lost() const { return 0; }
  // Where other processes get the weights; null where nothing is published to others.
  virtual WeightPublisher* publisher() { return nullptr; }
  // What the gateway of this process tells people, as JSON; any thread may ask, while the host is
  // there. Empty: there is no gateway.
  virtual std::string GatewayFigures() const { return ""; }
  // What watches a run that serves clients; while the host is there.
  virtual std::vector<LiveWatch*> watches() { return {}; }
  // Called about once a second. Not ok: the process cannot go on, and why.
  virtual Status Watch() { return Ok(); }
};

// What a process is asked to be, besides the config.
struct RunRequest {
  Roles roles = Roles::All();
  bool train = true;  // false: only the evaluations "before"
  bool resume = false;
  std::string eval_prefix;            // put before the names of evaluations
  RunDirectory* directory = nullptr;  // of the learner
  Journal* journal = nullptr;         // of the learner
  Metrics* metrics = nullptr;         // may be null; must outlive the run
  // Not null: the other roles are processes on this bus, which must outlive the run.
  RedisBus* fleet = nullptr;
  std::string worker;   // its name there
  std::string bus_url;  // and where that is
  SheetKeys keys;       // of the run's sheet
};

class Run {
 public:
  // `runner` is made before the ports: topics and mailboxes wake its loops to the last.
  Run(std::unique_ptr<LoopRunner> runner, std::unique_ptr<PortHost> host, Loops loops,
      RunStart start, std::vector<std::string> warnings, RedisBus* fleet);
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
    return started == Time::min() ? Duration(0) : host_->ports().clock->Now() - started;
  }
  // The loop that does not move; empty: all do.
  std::string StuckLoop() const { return tidemill::StuckLoop(runner_->Usage()); }
  std::vector<LoopUsage> LoopUsages() const { return runner_->Usage(); }

  const Loops& loops() const { return loops_; }
  PortHost& host() { return *host_; }
  const PortHost& host() const { return *host_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Its name on the bus; nobody else, and no process of the role before it, has it.
  const std::string& worker() const { return worker_; }
  uint64_t start_version() const { return start_version_; }

 private:
  const std::unique_ptr<LoopRunner> runner_;
  const std::unique_ptr<PortHost> host_;
  const Loops loops_;
  const std::vector<std::string> warnings_;
  const std::string worker_;
  const uint64_t start_version_;
  RedisBus* const fleet_;
  std::atomic<Time> started_{Time::min()};  // others ask from their threads
  bool running_ = false;
};

// Loads, checks and wires everything; nothing runs yet. Failures name the file or key.
Result<std::unique_ptr<Run>> OpenRun(const RunConfig& config, const RunRequest& request);

}  // namespace tidemill
