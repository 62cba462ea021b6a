// Deltas of many turns on their way to one reader.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/loop.h"
#include "core/mutex.h"
#include "engine/engine.h"

namespace tidemill {

// What comes for a turn before the reader took what came earlier is put behind that, so however
// slow the reader is there is never more here than the turns under way have tokens. Thread-safe.
class TurnFeed {
 public:
  // Before the first Post that should wake somebody.
  void Attach(Waker& waker);
  // The waker is not used afterwards.
  void Detach();
  // Of one step, in order. Wakes once.
  void Post(std::vector<TurnDelta> deltas);
  // Everything that arrived, one delta a turn, in the order in which their first tokens did.
  std::vector<TurnDelta> TakeAll();

 private:
  Mutex mutex_;
  std::vector<TurnDelta> deltas_ TM_GUARDED_BY(mutex_);
  std::unordered_map<SequenceId, size_t> pending_ TM_GUARDED_BY(mutex_);  // where in deltas_
  Waker* waker_ TM_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tidemill
