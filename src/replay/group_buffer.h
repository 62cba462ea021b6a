// The groups that may be trained on: which is next, how often each may be used, and which has to go
// when there are too many. Pure decisions about keys; the groups themselves are the replay loop's.
//
//   Insert -> [selector, uses, rate limiter] -> Draw.. -> Use | PutBack     over capacity ->
//   evicted
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "replay/rate_limiter.h"
#include "replay/replay_config.h"
#include "replay/selector.h"

namespace tidemill {

// Uses an inserted group pays for: on average no group is used more often than this.
inline uint32_t UsesPaid(const ReplayConfig& config) {
  return config.samples_per_insert == 0 ? config.max_uses : config.samples_per_insert;
}

// Belongs to one loop; not thread-safe. Keys are given in the order of age: the smallest is the
// oldest.
class GroupBuffer {
 public:
  // kInvalid names what is wrong with the config. `seed`: of what is selected at random.
  static Result<GroupBuffer> Make(const ReplayConfig& config, uint64_t seed);

  // `uses`: how often it was used before, by a run that was resumed. The key must be new. Returns
  // the group that had to go for it, if one had to: the one used most, of those the oldest.
  std::optional<ItemKey> Insert(ItemKey key, double priority, uint32_t uses = 0);
  // Chooses a group and takes it out of the choice until Use, PutBack or Remove. Nothing: there is
  // none, or the limits say to wait.
  std::optional<ItemKey> Draw();
  void PutBack(ItemKey drawn);
  // The group was used. Returns whether that was its last time; then it is gone.
  bool Use(ItemKey drawn);
  void Remove(ItemKey key);
  void SetPriority(ItemKey key, double priority);

  bool Contains(ItemKey key) const { return items_.count(key) != 0; }
  uint32_t uses(ItemKey key) const { return items_.at(key).uses; }
  size_t size() const { return items_.size(); }

 private:
  struct Item {
    double priority = 0;
    uint32_t uses = 0;
    bool drawn = false;
  };
  GroupBuffer(const ReplayConfig& config, std::unique_ptr<Selector> selector);
  std::pair<int64_t, ItemKey> EvictionPlace(ItemKey key, const Item& item) const {
    return {-static_cast<int64_t>(item.uses), key};
  }

  ReplayConfig config_;
  std::unique_ptr<Selector> selector_;
  RateLimiter limiter_;
  std::unordered_map<ItemKey, Item> items_;
  std::set<std::pair<int64_t, ItemKey>> eviction_;  // the first goes first
  uint64_t drawn_ = 0;                              // not used or put back yet
};

}  // namespace tidemill
