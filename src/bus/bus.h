// The bus: named queues (topics) between loops, at-least-once, with leases.
//
//   Publish -> topic -> Receive gives a lease -> Ack | Extend | Release | Reject
//                          `- lease runs out -> delivered again, count + 1 -> past the limit:
//                          "dead"
//
// One topic has one group of consumers, any of which may get a message; order is not promised.
// Every call returns at once: an implementation on a network keeps its own threads and buffers. The
// calls of one Bus object take effect in the order they were made, so that a result published
// before an Ack is never outrun by it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/loop.h"
#include "core/status.h"

namespace tidemill {

// Where messages that cannot be delivered go: DeadLetter messages (proto), one topic for the whole
// bus.
inline constexpr std::string_view kDeadTopic = "dead";

struct TopicOptions {
  size_t capacity = 1 << 16;                  // most messages ready, leased and delayed together
  Duration lease = std::chrono::seconds(30);  // how long a delivery is held without Extend
  uint32_t max_deliveries = 5;                // after this many the message is dead
};

// A delivery. The bearer may Ack, Extend, Release or Reject it until it runs out; after that each
// of those is kNotFound and another worker may have the message.
struct Lease {
  std::string topic;
  std::string id;      // of the message, unique in its topic
  uint64_t token = 0;  // of this delivery: fences off earlier holders
  std::string body;
  uint32_t deliveries = 1;  // 1 the first time
};

struct TopicDepth {
  size_t ready = 0;  // deliverable now or after a delay
  size_t leased = 0;
  size_t owed = 0;  // replies an inbox still has room reserved for
  size_t dead = 0;  // messages of this topic that died so far
};

class Bus {
 public:
  virtual ~Bus() = default;

  // Makes the topic, or changes its options if it exists. Using a topic that was never opened is
  // kNotFound.
  virtual Status Open(std::string_view topic, const TopicOptions& options) = 0;

  // kFull: the topic is at capacity; nothing was sent, try again when there is room.
  virtual Status Publish(std::string_view topic, std::string body) = 0;

  // Publishes a request whose answer will come to `inbox`, and reserves room for the answer there.
  // kFull: either has no room; nothing was sent.
  virtual Status PublishRequest(std::string_view topic, std::string_view inbox,
                                std::string body) = 0;

  // Publishes an answer into its reserved room: never kFull, so that a cycle of full queues cannot
  // lock. kNotFound: the inbox is gone, and with it whoever asked.
  virtual Status PublishReply(std::string_view inbox, std::string body) = 0;

  // The owner of the inbox gave up on `count` answers it was owed; their room is free again.
  virtual Status Forgive(std::string_view inbox, size_t count) = 0;

  // Up to `max` messages, none if there are none. kClosed after Close().
  virtual Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) = 0;

  // Done: the message is gone. kNotFound: the lease ran out; the message may be delivered again.
  virtual Status Ack(const Lease& lease) = 0;
  // The lease lasts its full time again, from now. kNotFound: it ran out; stop the work.
  virtual Status Extend(const Lease& lease) = 0;
  // Gives the message back, deliverable after `delay`. Counts as a delivery.
  virtual Status Release(const Lease& lease, Duration delay) = 0;
  // The message can never be handled (it cannot be parsed, say): to the dead letters at once.
  virtual Status Reject(const Lease& lease, std::string_view reason) = 0;

  virtual Result<TopicDepth> Depth(std::string_view topic) = 0;

  // How often messages that had been accepted were lost so far, with whatever held them: a server
  // without persistence started again, somebody deleted a stream. Whoever waits for something to
  // come of a message sends it again when this rises. Subscribers are woken then.
  virtual uint64_t Losses() = 0;

  // `waker` is woken whenever the topic may have something to receive, until Unsubscribe. Wakes may
  // be spurious; none is missed.
  virtual void Subscribe(std::string_view topic, Waker& waker) = 0;
  // No Wake() of this waker is under way when this returns.
  virtual void Unsubscribe(Waker& waker) = 0;

  // Removes a topic and what is in it: a worker's inbox when it leaves.
  virtual Status Remove(std::string_view topic) = 0;

  // From now on every call is kClosed.
  virtual void Close() = 0;
};

}  // namespace tidemill
