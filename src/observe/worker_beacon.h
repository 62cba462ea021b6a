// Makes a worker visible: it is in the run's roster from Start() to the end of this object, and
// serves
//
//   /metrics   Prometheus' text; asks for a token outside loopback
//   /healthz   200 while the process lives and its loops move
//   /readyz    200 while it takes work, else 503 and why not
//
// Make the Metrics first, then the loops and ports that fill them, then this; let it go first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/counters.h"
#include "core/metrics.h"
#include "core/status.h"

namespace tidemill {

// A worker's own figures.
struct WorkerReport {
  std::string doing;            // one line for people: "2 calls", "step 41"
  Duration busy{};              // working time so far, of all its slots
  std::string port;             // what is busy; empty: its loop
  double slots = 1;             // so that busy time becomes a share
  uint64_t policy_version = 0;  // 0: it has none
  // Since the process began: "retries", "skipped", "stale", .. The roster adds them up over all
  // processes of the role there ever were, so they must not say what others say too.
  std::map<std::string, double> counts;
  std::map<std::string, double> levels;  // as it is now: "slots", "ready"
  std::string rate_of;                   // the count that is its work; empty: none is
};

struct WorkerBeaconOptions {
  std::string url, run;      // where the roster is
  std::string role, worker;  // "tools", "tools-host-4711"
  std::string address = "127.0.0.1";
  uint16_t port = 0;                // 0: a free one; status shows it
  std::vector<std::string> tokens;  // needed outside loopback
  bool watch_run = false;           // /metrics also tells of the whole run: topics, workers
  std::string metrics_file;         // metrics.jsonl of the run, where it is written: its newest
                                    // figures are served as well; may be empty
  CounterTable counters = {};       // what those figures mean
  Metrics* metrics = nullptr;       // must outlive the beacon
  std::function<WorkerReport()> report;    // called by the beacon's threads at any time
  std::function<std::string()> stuck;      // for /healthz: "" or what does not move; may be empty
  std::function<std::string()> not_ready;  // for /readyz: "" or why not; may be empty
};

class WorkerBeacon {
 public:
  // kInvalid: the address, the token, or a worker of the run that speaks other messages.
  // kUnavailable: no broker, or the port is taken.
  static Result<std::unique_ptr<WorkerBeacon>> Start(WorkerBeaconOptions options);
  virtual ~WorkerBeacon() = default;

  // From now on it is shown as leaving and is not ready.
  virtual void Leaving() = 0;
  virtual std::string url() const = 0;  // "http://127.0.0.1:9100/"
};

}  // namespace tidemill
