#include "bus/memory/memory_topic.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace tidemill {

void MemoryTopic::Push(uint64_t id, std::string body) {
  Message& message = ready_.emplace_back();
  message.id = id;
  message.body = std::move(body);
}

bool MemoryTopic::DropOldest() {
  if (ready_.empty()) return false;
  ready_.pop_front();
  return true;
}

std::vector<Lease> MemoryTopic::Take(const std::string& topic, size_t max, Time now,
                                     std::atomic<uint64_t>& next_token) {
  std::vector<Lease> leases;
  const size_t count = std::min(max, ready_.size());
  leases.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    auto message = ready_.begin();
    message->token = next_token.fetch_add(1, std::memory_order_relaxed);
    ++message->deliveries;
    Lease& lease = leases.emplace_back();
    lease.topic = topic;
    lease.id = std::to_string(message->id);
    lease.token = message->token;
    lease.body = message->body;
    lease.deliveries = message->deliveries;
    leased_.splice(leased_.end(), ready_, message);
    Lend(message, now);
    by_token_.emplace(message->token, message);
  }
  return leases;
}

// Puts a message of leased_ where its new deadline belongs: at the end, unless the topic's lease
// was made shorter since.
void MemoryTopic::Lend(Messages::iterator message, Time now) {
  message->deadline = now + options_.lease;
  auto place = leased_.end();
  while (place != leased_.begin()) {
    auto before = std::prev(place);
    if (before != message && before->deadline <= message->deadline) break;
    place = before;
  }
  leased_.splice(place, leased_, message);
}

MemoryTopic::Messages::iterator MemoryTopic::Find(const Lease& lease) {
  auto found = by_token_.find(lease.token);
  if (found == by_token_.end()) return leased_.end();
  uint64_t id = 0;
  const char* end = lease.id.data() + lease.id.size();
  const auto parsed = std::from_chars(lease.id.data(), end, id);
  if (parsed.ec != std::errc() || parsed.ptr != end) return leased_.end();
  return found->second->id == id ? found->second : leased_.end();
}

bool MemoryTopic::Finish(const Lease& lease) {
  auto message = Find(lease);
  if (message == leased_.end()) return false;
  by_token_.erase(message->token);
  leased_.erase(message);
  return true;
}

bool MemoryTopic::Extend(const Lease& lease, Time now) {
  auto message = Find(lease);
  if (message == leased_.end()) return false;
  Lend(message, now);
  return true;
}

bool MemoryTopic::Return(const Lease& lease, Time ready_at, Time now, std::vector<Dead>& dead) {
  auto message = Find(lease);
  if (message == leased_.end()) return false;
  by_token_.erase(message->token);
  if (Exhausted(*message)) {
    Bury(message, "returned after delivery " + std::to_string(message->deliveries), dead);
  } else if (ready_at <= now) {
    ready_.splice(ready_.end(), leased_, message);
  } else {
    delayed_.emplace(ready_at, std::move(*message));
    leased_.erase(message);
  }
  return true;
}

bool MemoryTopic::Kill(const Lease& lease, std::string_view reason, std::vector<Dead>& dead) {
  auto message = Find(lease);
  if (message == leased_.end()) return false;
  by_token_.erase(message->token);
  if (immortal_) {
    leased_.erase(message);
  } else {
    Bury(message, std::string(reason), dead);
  }
  return true;
}

void MemoryTopic::Bury(Messages::iterator message, std::string reason, std::vector<Dead>& dead) {
  ++dead_;
  dead.push_back({std::move(message->body), std::move(reason), message->deliveries});
  leased_.erase(message);
}

bool MemoryTopic::Expire(Time now, std::vector<Dead>& dead) {
  bool became_ready = false;
  while (!leased_.empty() && leased_.front().deadline <= now) {
    auto message = leased_.begin();
    by_token_.erase(message->token);
    if (Exhausted(*message)) {
      Bury(message, "the lease expired at delivery " + std::to_string(message->deliveries), dead);
    } else {
      // In front: it has waited longest.
      ready_.splice(ready_.begin(), leased_, message);
      became_ready = true;
    }
  }
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    ready_.push_back(std::move(delayed_.begin()->second));
    delayed_.erase(delayed_.begin());
    became_ready = true;
  }
  return became_ready;
}

Time MemoryTopic::NextDeadline() const {
  Time next = kNever;
  if (!leased_.empty()) next = leased_.front().deadline;
  if (!delayed_.empty()) next = std::min(next, delayed_.begin()->first);
  return next;
}

TopicDepth MemoryTopic::Depth() const {
  TopicDepth depth;
  depth.ready = ready_.size() + delayed_.size();
  depth.leased = leased_.size();
  depth.owed = owed_;
  depth.dead = dead_;
  return depth;
}

}  // namespace tidemill
