// The writes of replay. A message is acknowledged once its content is durable, never
// before: a crash in between costs a duplicate, which is refused by its key.
//
//   lease + trajectory or verdict -> StoreOp -> StoreDone -> TakeWritten -> Done: ack
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/fate.h"
#include "replay/replay_counters.h"
#include "replay/replay_options.h"
#include "store/store_port.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class ReplayWriter {
 public:
  using Content = std::variant<std::monostate, v1::Trajectory, v1::Verdict>;
  struct Written {
    uint64_t tag = 0;
    Content content;
    bool exists = false;   // it was stored before
    bool refused = false;  // it could not be: its message is a dead letter
  };

  ReplayWriter(Bus& bus, StorePort& store, Outbox& outbox, const ReplayOptions& options,
               ReplayCounters& counters);

  void Attach(Waker& waker) { store_.events().Attach(waker); }

  // The whole of it is stored; `keep` is what comes back from TakeWritten.
  void Put(v1::Trajectory trajectory, v1::Trajectory keep, Lease lease, Time now);
  // Of ours: no message stands for it.
  void Put(const v1::Trajectory& trajectory);
  void Put(const v1::Verdict& verdict, Lease lease, Time now);
  void Record(const v1::TrajectoryId& id, Fate fate, const std::string& reason);
  // Stores the report and tells the dispatcher.
  void Report(const v1::GroupReport& report);

  // Throws where the database fails.
  std::vector<Written> TakeWritten();
  // Everything that follows from it was done.
  void Done(const Written& written);

  // A lost lease means a second copy of the message, which its key gives away.
  void ExtendLeases(Time now) { (void)leases_.Extend(now); }
  Time next() const { return leases_.next(); }
  size_t waiting() const { return waiting_.size(); }

 private:
  uint64_t Submit(StoreOp op, Content content);

  Bus& bus_;
  StorePort& store_;
  Outbox& outbox_;
  ReplayCounters& counters_;
  LeaseKeeper leases_;  // by tag
  std::unordered_map<uint64_t, Content> waiting_;
  uint64_t next_tag_ = 1;
};

}  // namespace tidemill
