#include "bus/memory/memory_bus.h"

#include <algorithm>
#include <utility>

#include "bus/topic_rules.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

Status BusClosed() {
  return Closed("the bus is closed");
}

}  // namespace

MemoryBus::MemoryBus(const Clock& clock) : clock_(clock) {
  TopicOptions options;
  options.capacity = kDeadCapacity;
  SlotPtr dead = FindOrAdd(kDeadTopic);
  dead->open = true;
  dead->topic.SetImmortal();
  dead->topic.SetOptions(options);
}

MemoryBus::SlotPtr MemoryBus::Find(std::string_view topic) const {
  ReaderLock lock(slots_mutex_);
  auto found = slots_.find(topic);
  return found == slots_.end() ? nullptr : found->second;
}

MemoryBus::SlotPtr MemoryBus::FindOrAdd(std::string_view topic) {
  if (SlotPtr slot = Find(topic)) return slot;
  WriterLock lock(slots_mutex_);
  SlotPtr& slot = slots_[std::string(topic)];
  if (slot == nullptr) slot = std::make_shared<Slot>(std::string(topic));
  return slot;
}

std::vector<MemoryBus::SlotPtr> MemoryBus::AllSlots() const {
  std::vector<SlotPtr> all;
  {
    ReaderLock lock(slots_mutex_);
    all.reserve(slots_.size());
    for (const auto& [name, slot] : slots_) all.push_back(slot);
  }
  // In the order of names, so that a replay wakes in the same order on every machine.
  std::sort(all.begin(), all.end(),
            [](const SlotPtr& a, const SlotPtr& b) { return a->name < b->name; });
  return all;
}

void MemoryBus::WakeAll(Slot& slot) {
  if (slot.listeners.load() == 0) return;
  MutexLock lock(slot.wakers_mutex);
  for (Waker* waker : slot.wakers) waker->Wake();
}

void MemoryBus::Bury(const Slot& from, std::vector<MemoryTopic::Dead> dead) {
  SlotPtr grave = Find(kDeadTopic);
  for (MemoryTopic::Dead& one : dead) {
    v1::DeadLetter letter;
    letter.set_topic(from.name);
    letter.set_body(std::move(one.body));
    letter.set_reason(std::move(one.reason));
    letter.set_deliveries(one.deliveries);
    letter.set_died_ms(clock_.WallMs());
    std::string body = letter.SerializeAsString();
    MutexLock lock(grave->mutex);
    if (!grave->topic.HasRoom()) {
      ++dropped_dead_letters_;
      if (!grave->topic.DropOldest()) continue;  // all are held: the newest goes instead
    }
    grave->topic.Push(next_id_++, std::move(body));
  }
  WakeAll(*grave);
}

template <typename Use>
Status MemoryBus::With(std::string_view topic, Use use) {
  if (closed_) return BusClosed();
  SlotPtr slot = Find(topic);
  if (slot == nullptr) return NoTopic(topic);
  std::vector<MemoryTopic::Dead> dead;
  bool wake = false;
  Status status;
  {
    MutexLock lock(slot->mutex);
    if (!slot->open) return NoTopic(topic);
    const Time now = clock_.Now();
    wake = slot->topic.Expire(now, dead);
    status = use(slot->topic, now, dead, wake);
  }
  if (!dead.empty()) Bury(*slot, std::move(dead));
  if (wake) WakeAll(*slot);
  return status;
}

Status MemoryBus::Open(std::string_view topic, const TopicOptions& options) {
  if (closed_) return BusClosed();
  TM_RETURN_IF_ERROR(CheckTopic(topic, options));
  // Again if Remove() took the slot off the map between finding and opening it.
  while (true) {
    SlotPtr slot = FindOrAdd(topic);
    {
      MutexLock lock(slot->mutex);
      slot->open = true;
      slot->topic.SetOptions(options);
    }
    if (Find(topic) == slot) return Ok();
  }
}

Status MemoryBus::Publish(std::string_view topic, std::string body) {
  return With(topic, [&](MemoryTopic& messages, Time, auto&, bool& wake) {
    if (!messages.HasRoom()) return TopicFull(topic);
    messages.Push(next_id_.fetch_add(1, std::memory_order_relaxed), std::move(body));
    wake = true;
    return Ok();
  });
}

// The room for the answer is reserved first and given back if the request does not fit, so that two
// locks are never held at once.
Status MemoryBus::PublishRequest(std::string_view topic, std::string_view inbox, std::string body) {
  TM_RETURN_IF_ERROR(With(inbox, [&](MemoryTopic& messages, Time, auto&, bool&) {
    if (!messages.HasRoom()) return TopicFull(inbox);
    messages.Reserve();
    return Ok();
  }));
  Status published = Publish(topic, std::move(body));
  if (!published.ok()) {
    // Nothing to undo where the inbox was removed or the bus closed meanwhile.
    (void)With(inbox, [&](MemoryTopic& messages, Time, auto&, bool&) {
      messages.Unreserve(1);
      return Ok();
    });
  }
  return published;
}

// A second answer to one request (it was delivered twice) may take the room of another; that one
// then goes above capacity, by no more than the repeated deliveries there were.
Status MemoryBus::PublishReply(std::string_view inbox, std::string body) {
  return With(inbox, [&](MemoryTopic& messages, Time, auto&, bool& wake) {
    messages.Unreserve(1);
    messages.Push(next_id_.fetch_add(1, std::memory_order_relaxed), std::move(body));
    wake = true;
    return Ok();
  });
}

Status MemoryBus::Forgive(std::string_view inbox, size_t count) {
  return With(inbox, [&](MemoryTopic& messages, Time, auto&, bool&) {
    messages.Unreserve(count);
    return Ok();
  });
}

Result<std::vector<Lease>> MemoryBus::Receive(std::string_view topic, size_t max) {
  std::vector<Lease> leases;
  const std::string name(topic);
  TM_RETURN_IF_ERROR(With(topic, [&](MemoryTopic& messages, Time now, auto&, bool&) {
    leases = messages.Take(name, max, now, next_token_);
    return Ok();
  }));
  return leases;
}

Status MemoryBus::OnLease(const Lease& lease, bool found) const {
  if (found) return Ok();
  return NotFound("the lease of message " + lease.id + " in \"" + lease.topic + "\" has expired");
}

Status MemoryBus::Ack(const Lease& lease) {
  return With(lease.topic, [&](MemoryTopic& messages, Time, auto&, bool&) {
    return OnLease(lease, messages.Finish(lease));
  });
}

Status MemoryBus::Extend(const Lease& lease) {
  return With(lease.topic, [&](MemoryTopic& messages, Time now, auto&, bool&) {
    return OnLease(lease, messages.Extend(lease, now));
  });
}

Status MemoryBus::Release(const Lease& lease, Duration delay) {
  return With(lease.topic, [&](MemoryTopic& messages, Time now, auto& dead, bool& wake) {
    const bool found = messages.Return(lease, now + ClampDelay(delay), now, dead);
    if (found && delay <= Duration::zero()) wake = true;
    return OnLease(lease, found);
  });
}

Status MemoryBus::Reject(const Lease& lease, std::string_view reason) {
  return With(lease.topic, [&](MemoryTopic& messages, Time, auto& dead, bool&) {
    return OnLease(lease, messages.Kill(lease, reason, dead));
  });
}

Result<TopicDepth> MemoryBus::Depth(std::string_view topic) {
  TopicDepth depth;
  TM_RETURN_IF_ERROR(With(topic, [&](MemoryTopic& messages, Time, auto&, bool&) {
    depth = messages.Depth();
    return Ok();
  }));
  return depth;
}

void MemoryBus::Subscribe(std::string_view topic, Waker& waker) {
  while (true) {
    SlotPtr slot = FindOrAdd(topic);
    {
      MutexLock lock(slot->wakers_mutex);
      slot->wakers.push_back(&waker);
      slot->listeners = slot->wakers.size();
    }
    if (Find(topic) != slot) continue;  // Remove() took it off the map; nobody will wake through it
    bool ready;
    {
      MutexLock lock(slot->mutex);
      ready = slot->topic.has_ready();
    }
    if (ready) WakeAll(*slot);
    return;
  }
}

void MemoryBus::Unsubscribe(Waker& waker) {
  for (const SlotPtr& slot : AllSlots()) {
    MutexLock lock(slot->wakers_mutex);
    std::erase(slot->wakers, &waker);
    slot->listeners = slot->wakers.size();
  }
}

// A name somebody listens to stays on the map, closed, so that its listeners hear of it being
// opened again.
Status MemoryBus::Remove(std::string_view topic) {
  if (closed_) return BusClosed();
  if (topic == kDeadTopic) return Invalid("the topic \"dead\" belongs to the bus");
  WriterLock lock(slots_mutex_);
  auto found = slots_.find(topic);
  if (found == slots_.end()) return NoTopic(topic);
  SlotPtr slot = found->second;
  MutexLock slot_lock(slot->mutex);
  const bool was_open = std::exchange(slot->open, false);
  slot->topic = MemoryTopic();
  if (slot->listeners.load() == 0) slots_.erase(found);
  return was_open ? Ok() : NoTopic(topic);
}

void MemoryBus::Close() {
  closed_ = true;
  for (const SlotPtr& slot : AllSlots()) WakeAll(*slot);
}

void MemoryBus::Poll() {
  if (closed_) return;
  for (const SlotPtr& slot : AllSlots()) {
    // With() does all there is to do; a topic removed meanwhile has nothing due.
    (void)With(slot->name, [](MemoryTopic&, Time, auto&, bool&) { return Ok(); });
  }
}

Time MemoryBus::NextDeadline() const {
  Time next = kNever;
  ReaderLock all(slots_mutex_);
  for (const auto& [name, slot] : slots_) {
    MutexLock lock(slot->mutex);
    next = std::min(next, slot->topic.NextDeadline());
  }
  return next;
}

std::vector<std::string> MemoryBus::Topics() const {
  std::vector<std::string> names;
  for (const SlotPtr& slot : AllSlots()) {
    MutexLock lock(slot->mutex);
    if (slot->open) names.push_back(slot->name);
  }
  return names;
}

BusTicker::BusTicker(MemoryBus& bus, Duration period)
    : thread_([this, &bus, period] {
        MutexLock lock(mutex_);
        while (!wake_.WaitFor(lock, period, [this]() TM_REQUIRES(mutex_) { return stop_; })) {
          lock.Unlock();
          bus.Poll();
          lock.Lock();
        }
      }) {}

BusTicker::~BusTicker() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

}  // namespace tidemill
