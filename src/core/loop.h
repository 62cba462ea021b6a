// Loops decide, ports work. A Loop is stepped by one thread (LoopRunner, or the simulator); a port
// does slow things elsewhere and posts each completion to the Mailbox of the loop that asked.
//
//   bus topic / port completion --Wake()--> runner --Step(now)--> loop --> bus, ports
#pragma once

#include <string_view>

#include "core/clock.h"

namespace tidemill {

// Tells whoever steps a loop that something arrived for it. Wake() may be called from any thread,
// at any time while the loop exists, as often as one likes; it never blocks.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void Wake() = 0;
};

// A part that decides on its own and never blocks. All calls come from one thread at a time.
class Loop {
 public:
  virtual ~Loop() = default;

  // Short and constant: "rollout". Names the thread, the metrics and the error that takes a run
  // down.
  virtual std::string_view name() const = 0;

  // Called once, before the first Step: hand the waker to the topics and mailboxes listened to.
  virtual void Attach(Waker& waker) = 0;

  // Takes what has arrived, changes its own state, sends what follows: milliseconds at most.
  // Returns the time by which to be stepped again even if nothing arrives; kNever if only an
  // arrival matters; `now` (or earlier) if there is more to do at once. A loop that cannot go on
  // throws.
  virtual Time Step(Time now) = 0;

  // Asked to stop in order: take no new work, finish or give back what is held. Step() goes on
  // being called until Drained() or until the runner's patience ends.
  virtual void Drain() {}
  virtual bool Drained() const { return true; }
};

}  // namespace tidemill
