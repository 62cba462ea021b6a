// The embedded bus: topics in the memory of one process. Leases and delays run by the Clock it was
// given and by nothing else, so that a simulated run replays exactly. Nothing survives the process.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/memory/memory_topic.h"
#include "core/mutex.h"

namespace tidemill {

// Leases that ran out and delays that are over are noticed by the next call that names
// its topic, and by Poll(), which also wakes subscribers: give the bus a BusTicker, or call Poll()
// at NextDeadline(). Wake() is called without the lock of a topic held; a waker may use the bus
// inside Wake(), except to subscribe or unsubscribe.
class MemoryBus final : public Bus {
 public:
  explicit MemoryBus(const Clock& clock);

  Status Open(std::string_view topic, const TopicOptions& options) override;
  Status Publish(std::string_view topic, std::string body) override;
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body) override;
  Status PublishReply(std::string_view inbox, std::string body) override;
  Status Forgive(std::string_view inbox, size_t count) override;
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) override;
  Status Ack(const Lease& lease) override;
  Status Extend(const Lease& lease) override;
  Status Release(const Lease& lease, Duration delay) override;
  Status Reject(const Lease& lease, std::string_view reason) override;
  Result<TopicDepth> Depth(std::string_view topic) override;
  uint64_t Losses() override { return 0; }  // they end with the process
  void Subscribe(std::string_view topic, Waker& waker) override;
  void Unsubscribe(Waker& waker) override;
  Status Remove(std::string_view topic) override;
  void Close() override;

  // Makes ready what is due by the clock in every topic and wakes whoever listens there.
  void Poll();
  // When Poll() will next have something to do; kNever if nothing is leased or delayed.
  Time NextDeadline() const;
  // The open topics, in the order of their names.
  std::vector<std::string> Topics() const;
  // Dead letters lost because their own topic was full.
  uint64_t DroppedDeadLetters() const { return dropped_dead_letters_; }

 private:
  // A name with what is kept under it. Shared: a call may still use one that Remove() took off the
  // map.
  struct Slot {
    explicit Slot(std::string topic_name) : name(std::move(topic_name)) {}
    const std::string name;
    Mutex mutex;
    bool open TM_GUARDED_BY(mutex) = false;
    MemoryTopic topic TM_GUARDED_BY(mutex);
    Mutex wakers_mutex;  // held while waking; never together with `mutex`
    std::vector<Waker*> wakers TM_GUARDED_BY(wakers_mutex);
    std::atomic<size_t> listeners = 0;  // wakers.size(), so that a silent topic costs no lock
  };
  using SlotPtr = std::shared_ptr<Slot>;
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  SlotPtr Find(std::string_view topic) const;  // null: never heard of
  SlotPtr FindOrAdd(std::string_view topic);
  std::vector<SlotPtr> AllSlots() const;
  // Runs `use(MemoryTopic&, now, dead)` on the open topic after making ready what is due; then
  // sends the dead letters and wakes listeners if `use` or the expiry made something ready.
  template <typename Use>
  Status With(std::string_view topic, Use use);
  Status OnLease(const Lease& lease, bool found) const;
  void Bury(const Slot& from, std::vector<MemoryTopic::Dead> dead);
  static void WakeAll(Slot& slot);

  const Clock& clock_;
  std::atomic<bool> closed_ = false;
  std::atomic<uint64_t> next_id_ = 1;
  std::atomic<uint64_t> next_token_ = 1;
  std::atomic<uint64_t> dropped_dead_letters_ = 0;
  mutable SharedMutex slots_mutex_;
  std::unordered_map<std::string, SlotPtr, NameHash, std::equal_to<>> slots_
      TM_GUARDED_BY(slots_mutex_);
};

// Calls Poll() every `period` of real time on a thread of its own, for as long as it lives: what a
// process on real time adds to a MemoryBus. The bus outlives it.
class BusTicker {
 public:
  explicit BusTicker(MemoryBus& bus, Duration period = milliseconds(20));
  ~BusTicker();

 private:
  Mutex mutex_;
  CondVar wake_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tidemill
