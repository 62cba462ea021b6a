// The two ports of the autoscaler: one to see with, one to act with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mailbox.h"
#include "core/status.h"

namespace tidemill {

// A tool worker as its heartbeat tells.
struct ToolWorkerState {
  std::string name;
  bool leaving = false;
  size_t slots = 1, grade_slots = 1;
  double busy_seconds = 0;  // of all its slots, since it began
  double completed = 0;     // calls that took this time
};

struct TopicLoad {
  std::string topic;
  uint64_t ready = 0, leased = 0;
};

struct FleetReport {
  Status status;  // not ok: nothing is known at the moment
  std::vector<ToolWorkerState> workers;
  std::vector<TopicLoad> topics;  // those that tool workers serve
};

// Looks at a run. One report for each Ask.
class FleetPort {
 public:
  virtual ~FleetPort() = default;
  virtual void Ask() = 0;
  virtual Mailbox<FleetReport>& reports() = 0;
};

// A worker that was started has a name, and in the end it ends. Both are told once, in this order;
// one that could not be started only ends.
struct BackendEvent {
  uint64_t id = 0;
  bool ended = false;
  std::string name = {};  // of a worker that was started
  Status status = {};     // of one that ended: ok where it left in order
};

// Starts workers and asks them to leave. A worker told to drain finishes what it holds, however
// long that takes.
class WorkerBackend {
 public:
  virtual ~WorkerBackend() = default;
  virtual void Start(uint64_t id) = 0;
  virtual void Drain(uint64_t id) = 0;
  virtual Mailbox<BackendEvent>& events() = 0;
};

}  // namespace tidemill
