// Gives each loop a thread of its own: the production counterpart of the simulator.
//
//   Wake() or the time asked for --> thread "rollout" --> Step(now) --> park
//
// A supervisor thread takes the run down in order, when asked to or when a loop throws:
//   every loop is told to drain --> all are drained and nothing is under way --> threads end.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/loop.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

// The use of a loop's time so far.
struct LoopUsage {
  std::string name;
  Duration busy{};  // inside Step()
  uint64_t steps = 0;
  Duration longest_step{};  // a loop should take milliseconds
  Duration in_step{};       // how long the step under way has taken; 0 between steps
};

// For liveness checks: "" or the loop whose step has taken a minute, with how long.
std::string StuckLoop(const std::vector<LoopUsage>& loops);

// Add() the loops, Start(), Wait(). The loops are borrowed; they, and whatever keeps a Waker of
// this runner (topics, mailboxes), may outlive it only if nothing wakes a loop any more. Time is
// the steady clock's.
class LoopRunner {
 public:
  struct Options {
    // How long the others may drain after a loop threw.
    Duration failure_patience = std::chrono::seconds(5);
    // A longer step than this is logged: work that belongs into a port.
    Duration slow_step = milliseconds(100);
  };

  LoopRunner();
  explicit LoopRunner(Options options);
  // Stops at once if still running.
  ~LoopRunner();
  LoopRunner(const LoopRunner&) = delete;
  LoopRunner& operator=(const LoopRunner&) = delete;

  // Only before Start().
  void Add(Loop& loop);

  // Attaches every loop, then starts the threads. Fails if a loop cannot attach or no thread is to
  // be had; nothing runs then.
  Status Start();

  // Asks all loops to drain and ends the run when all of them have, or `patience` from now. A later
  // call may shorten the patience, never lengthen it. From any thread, a loop's own included; does
  // not wait.
  void RequestDrain(Duration patience);

  // Ends the run after the steps under way; nothing is drained. From any thread; does not wait.
  void RequestStop();

  // True once the run has ended. Not from a loop.
  bool WaitFor(Duration limit);

  // Waits for the end of the run. Ok: it was stopped, or drained in time. kInternal: a loop threw;
  // names it. kTimeout: drained too slowly; names the loops that still held work. Not from a loop.
  Status Wait();

  Status Drain(Duration patience) {
    RequestDrain(patience);
    return Wait();
  }
  Status Stop() {
    RequestStop();
    return Wait();
  }

  // From any thread.
  std::vector<LoopUsage> Usage() const;

 private:
  class Worker;

  void Supervise();
  bool AllQuiet();
  std::string Unfinished();
  void Fail(std::string_view loop, std::string_view what);
  void Poke();

  const Options options_;
  std::vector<std::unique_ptr<Worker>> workers_;  // fixed once started
  std::thread supervisor_;

  mutable Mutex mutex_;  // never held while a worker's is taken
  CondVar changed_;
  bool poked_ TM_GUARDED_BY(mutex_) = false;
  bool stop_requested_ TM_GUARDED_BY(mutex_) = false;
  bool drain_requested_ TM_GUARDED_BY(mutex_) = false;
  Time drain_deadline_ TM_GUARDED_BY(mutex_) = kNever;
  std::string failures_ TM_GUARDED_BY(mutex_);  // "" while none
  bool started_ TM_GUARDED_BY(mutex_) = false;
  bool finished_ TM_GUARDED_BY(mutex_) = false;
  Status result_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
