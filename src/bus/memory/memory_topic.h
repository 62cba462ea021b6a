// One queue of the MemoryBus: where its messages are and for how long. No lock, no clock of its
// own: whoever calls holds the lock and says what time it is.
//
//   Push -> ready -> Take -> leased -> Finish | Return -> delayed -> ready
//                              `- deadline passed -> ready | dead
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "core/clock.h"

namespace tidemill {

// Every operation is O(1), except that a delay costs O(log n) and that a lease taken after the
// topic's lease was made shorter may pass over those that last longer.
class MemoryTopic {
 public:
  struct Message {
    uint64_t id = 0;
    uint64_t token = 0;  // of the delivery under way
    uint32_t deliveries = 0;
    Time deadline{};  // of the lease
    std::string body;
  };
  struct Dead {
    std::string body;
    std::string reason;
    uint32_t deliveries = 0;
  };

  void SetOptions(const TopicOptions& options) { options_ = options; }
  // Dead letters are never dead: they are delivered without limit.
  void SetImmortal() { immortal_ = true; }

  // Room for one more message, beside the replies it is owed.
  bool HasRoom(size_t count = 1) const { return size() + owed_ + count <= options_.capacity; }
  size_t size() const { return ready_.size() + leased_.size() + delayed_.size(); }

  void Push(uint64_t id, std::string body);
  void Reserve() { ++owed_; }
  void Unreserve(size_t count) { owed_ -= std::min(owed_, count); }
  // Drops the oldest message nobody holds. False: there is none.
  bool DropOldest();

  // Hands out up to `max`; tokens are drawn from `next_token`.
  std::vector<Lease> Take(const std::string& topic, size_t max, Time now,
                          std::atomic<uint64_t>& next_token);

  // Each is false when the lease ran out or never was. Expire(now) comes first.
  bool Finish(const Lease& lease);
  bool Extend(const Lease& lease, Time now);
  bool Return(const Lease& lease, Time ready_at, Time now, std::vector<Dead>& dead);
  bool Kill(const Lease& lease, std::string_view reason, std::vector<Dead>& dead);

  // Makes ready what is due: leases that ran out, delays that are over. True: something became
  // ready.
  bool Expire(Time now, std::vector<Dead>& dead);
  // When Expire will next have something to do.
  Time NextDeadline() const;

  bool has_ready() const { return !ready_.empty(); }
  TopicDepth Depth() const;

 private:
  using Messages = std::list<Message>;  // a list, so that messages change place without being moved

  // The lease's message, or leased_.end().
  Messages::iterator Find(const Lease& lease);
  void Lend(Messages::iterator message, Time now);
  bool Exhausted(const Message& message) const {
    return !immortal_ && message.deliveries >= options_.max_deliveries;
  }
  void Bury(Messages::iterator message, std::string reason, std::vector<Dead>& dead);

  TopicOptions options_;
  bool immortal_ = false;
  size_t owed_ = 0;
  size_t dead_ = 0;
  Messages ready_;
  Messages leased_;                                            // by deadline, the earliest first
  std::unordered_map<uint64_t, Messages::iterator> by_token_;  // into leased_
  std::multimap<Time, Message> delayed_;
};

}  // namespace tidemill
