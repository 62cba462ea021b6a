// Messages of a loop, kept until the bus has room: back-pressure without blocking and
// without loss. One full topic does not hold up the others.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bus/bus.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class Outbox {
 public:
  // Leases that wait to be acknowledged are prolonged every `lease_period`.
  explicit Outbox(Bus& bus, Duration lease_period = std::chrono::seconds(10))
      : bus_(bus), lease_period_(lease_period) {}

  // `then_ack`, if given, is acknowledged once the message was taken, never before.
  void Publish(std::string_view topic, std::string body, std::optional<Lease> then_ack = {});
  void Request(std::string_view topic, std::string_view inbox, std::string body);
  void Reply(std::string_view inbox, std::string body, std::optional<Lease> then_ack = {});

  // Sends what there is room for, in order within a topic. Call at the end of every Step.
  void Flush(Time now);

  // Messages still waiting for room.
  size_t waiting() const { return waiting_; }

 private:
  enum class Kind { kPublish, kRequest, kReply };
  struct Entry {
    Kind kind;
    std::string inbox;
    std::string body;
    std::optional<Lease> then_ack;
  };
  Status Send(const std::string& topic, Entry& entry);
  void Add(std::string_view topic, Entry entry);
  void ExtendWaiting(Time now);

  Bus& bus_;
  Duration lease_period_;
  Time extend_at_ = Time::min();  // when the leases of waiting messages are prolonged next
  std::map<std::string, std::deque<Entry>, std::less<>> topics_;
  size_t waiting_ = 0;
};

// The messages to receive; none when the bus was closed. A topic that was never opened is a
// mistake in the wiring and throws.
std::vector<Lease> TakeFrom(Bus& bus, std::string_view topic, size_t max);

// The same from a topic that belongs to the caller. One that is gone (a worker that was stopped for
// minutes counts as lost, and what belongs to it is removed) is opened again.
std::vector<Lease> TakeFromOwn(Bus& bus, std::string_view topic, const TopicOptions& options,
                               size_t max);

}  // namespace tidemill
