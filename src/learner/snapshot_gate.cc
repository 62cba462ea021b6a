#include "learner/snapshot_gate.h"

#include "core/status.h"

namespace tidemill {

void SnapshotGate::Begin(const Clock& clock) {
  MutexLock lock(mutex_);
  TM_CHECK(clock_ == nullptr, "one copy of the trainer's state at a time");
  clock_ = &clock;
}

Duration SnapshotGate::Complete() {
  MutexLock lock(mutex_);
  TM_CHECK(clock_ != nullptr, "a copy that was not begun cannot be complete");
  const Duration waited = waiting_ ? clock_->Now() - waiting_since_ : Duration::zero();
  clock_ = nullptr;
  waiting_ = false;
  // With the lock held: who waits may destroy the gate next.
  completed_.NotifyAll();
  return waited;
}

void SnapshotGate::AwaitCopy() {
  MutexLock lock(mutex_);
  if (clock_ == nullptr) return;
  waiting_ = true;
  waiting_since_ = clock_->Now();
  completed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return clock_ == nullptr; });
}

bool SnapshotGate::waiting() const {
  MutexLock lock(mutex_);
  return waiting_;
}

}  // namespace tidemill
