// Deltas of many turns on their way to one reader.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/loop.h"
#include "core/mutex.h"
#include "engine/engine.h"

namespace tidemill {

// Output that comes before the reader took the earlier part is put behind it, so however
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
