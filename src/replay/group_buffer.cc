#include "replay/group_buffer.h"

#include <algorithm>

namespace tidemill {

Result<GroupBuffer> GroupBuffer::Make(const ReplayConfig& config, uint64_t seed) {
  if (config.max_uses == 0) return Invalid("a group must be usable at least once");
  if (config.samples_per_insert > config.max_uses) {
    return Invalid("samples per insert (" + std::to_string(config.samples_per_insert) +
                   ") must not be above the most uses of a group (" +
                   std::to_string(config.max_uses) + ")");
  }
  if (config.capacity < config.min_groups) {
    return Invalid("a buffer of " + std::to_string(config.capacity) + " groups can never hold " +
                   std::to_string(config.min_groups));
  }
  TM_ASSIGN_OR_RETURN(auto selector,
                      NewSelector(config.selection, Random(seed), config.priority_exponent));
  return GroupBuffer(config, std::move(selector));
}

GroupBuffer::GroupBuffer(const ReplayConfig& config, std::unique_ptr<Selector> selector)
    : config_(config),
      selector_(std::move(selector)),
      limiter_(UsesPaid(config), std::max(1u, config.min_groups)) {}

std::optional<ItemKey> GroupBuffer::Insert(ItemKey key, double priority, uint32_t uses) {
  TM_CHECK(selector_->Insert(key, priority).ok(), "a group was inserted twice");
  const Item item{priority, uses, false};
  items_.emplace(key, item);
  eviction_.insert(EvictionPlace(key, item));
  limiter_.Inserted();
  // What it was used before has been paid for; what is left of that counts.
  limiter_.Sampled(std::min(uses, UsesPaid(config_)));
  if (items_.size() <= config_.capacity) return {};
  for (const auto& [most, victim] : eviction_) {
    if (items_.at(victim).drawn) continue;
    const ItemKey evicted = victim;
    Remove(evicted);
    return evicted;
  }
  return {};
}

std::optional<ItemKey> GroupBuffer::Draw() {
  if (!limiter_.CanSample(drawn_ + 1)) return {};
  const Result<Selection> selection = selector_->Sample();
  if (!selection.ok()) return {};
  const ItemKey key = selection->key;
  TM_CHECK(selector_->Remove(key).ok());
  items_.at(key).drawn = true;
  ++drawn_;
  return key;
}

void GroupBuffer::PutBack(ItemKey key) {
  Item& item = items_.at(key);
  TM_CHECK(item.drawn && drawn_ > 0, "only what was drawn can be put back");
  item.drawn = false;
  --drawn_;
  TM_CHECK(selector_->Insert(key, item.priority).ok());
}

bool GroupBuffer::Use(ItemKey key) {
  PutBack(key);
  Item& item = items_.at(key);
  eviction_.erase(EvictionPlace(key, item));
  ++item.uses;
  eviction_.insert(EvictionPlace(key, item));
  limiter_.Sampled();
  if (item.uses < config_.max_uses) return false;
  Remove(key);
  return true;
}

void GroupBuffer::Remove(ItemKey key) {
  auto it = items_.find(key);
  if (it == items_.end()) return;
  if (it->second.drawn)
    --drawn_;
  else
    TM_CHECK(selector_->Remove(key).ok());
  eviction_.erase(EvictionPlace(key, it->second));
  limiter_.Removed(it->second.uses);
  items_.erase(it);
}

void GroupBuffer::SetPriority(ItemKey key, double priority) {
  auto it = items_.find(key);
  if (it == items_.end()) return;
  it->second.priority = priority;
  if (!it->second.drawn) TM_CHECK(selector_->Update(key, priority).ok());
}

}  // namespace tidemill
