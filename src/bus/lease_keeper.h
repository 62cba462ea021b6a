// Prolongs the leases a loop works under, so that no other worker starts the same work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bus/bus.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. Keys are the loop's own.
class LeaseKeeper {
 public:
  // Leases are prolonged every `period`: a third of the topic's lease time is right.
  LeaseKeeper(Bus& bus, Duration period) : bus_(bus), period_(period) {}

  void Hold(uint64_t key, Lease lease, Time now) {
    held_.insert_or_assign(key, Held{std::move(lease), now + period_});
    next_ = std::min(next_, now + period_);
  }
  // The lease, no longer kept. The key must be held.
  Lease Take(uint64_t key) {
    auto node = held_.extract(key);
    TM_CHECK(!node.empty(), "no lease is held under this key");
    return std::move(node.mapped().lease);
  }
  bool Holds(uint64_t key) const { return held_.count(key) != 0; }
  // Whether the lease is held and could be prolonged just now.
  bool StillOurs(uint64_t key) {
    auto it = held_.find(key);
    return it != held_.end() && bus_.Extend(it->second.lease).code() != Code::kNotFound;
  }

  // Prolongs what is due. Returns the keys whose lease was lost: stop that work, it is another's
  // now.
  std::vector<uint64_t> Extend(Time now) {
    std::vector<uint64_t> lost;
    if (now < next_) return lost;
    next_ = kNever;
    for (auto it = held_.begin(); it != held_.end();) {
      Held& held = it->second;
      if (held.extend_at <= now) {
        if (bus_.Extend(held.lease).code() == Code::kNotFound) {
          lost.push_back(it->first);
          it = held_.erase(it);
          continue;
        }
        held.extend_at = now + period_;
      }
      next_ = std::min(next_, held.extend_at);
      ++it;
    }
    return lost;
  }

  // When Extend should be called again at the latest.
  Time next() const { return next_; }
  size_t size() const { return held_.size(); }

  // Gives everything back at once: the worker leaves.
  void ReleaseAll() {
    for (auto& [key, held] : held_) (void)bus_.Release(held.lease, Duration(0));
    held_.clear();
  }

 private:
  struct Held {
    Lease lease;
    Time extend_at;
  };
  Bus& bus_;
  Duration period_;
  Time next_ = kNever;  // no lease is due before
  std::map<uint64_t, Held> held_;
};

}  // namespace tidemill
