// Lets a copy of a trainer's state be taken while the trainer goes on: only who is about to change
// the state waits until the copy is complete.
//
//   trainer's thread:  Begin -> forward, backward -> AwaitCopy -> update
//   copying thread:             copy ...... Complete
#pragma once

#include "core/clock.h"
#include "core/mutex.h"

namespace tidemill {

class SnapshotGate {
 public:
  // The trainer's thread: AwaitCopy waits from here on. No copy may be under way. `clock` must
  // live until Complete has returned.
  void Begin(const Clock& clock);
  // Any thread, once for each Begin, also where the copy failed; the state is not read any more.
  // Returns how long the trainer stood waiting for it.
  Duration Complete();
  // The trainer's thread, before every change of the state. Returns at once where no copy is under
  // way.
  void AwaitCopy();

  // Any thread: whether the trainer stands waiting.
  bool waiting() const;

 private:
  mutable Mutex mutex_;
  CondVar completed_;
  const Clock* clock_ TM_GUARDED_BY(mutex_) = nullptr;  // of the copy under way; null: none is
  bool waiting_ TM_GUARDED_BY(mutex_) = false;
  Time waiting_since_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
