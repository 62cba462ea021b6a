// Publishes on one channel with the broker's confirms, and does what must not happen before what
// was published earlier is safe: an answer is on the broker before its request is acknowledged.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>

#include "bus/rabbit/rabbit_connection.h"
#include "core/status.h"

namespace tidemill {

// Belongs to one thread.
class RabbitSender {
 public:
  enum class Outcome {
    kTaken,
    kReturned,  // no queue took it
    kLost,      // the connection was, and with it what the message was made from
  };
  using Done = std::function<void(Outcome)>;

  explicit RabbitSender(uint16_t channel) : channel_(channel) {}

  // A message that is new survives the connection; one `made_of_delivery` does not, because the
  // broker delivers what it was made of again.
  Status Publish(RabbitConnection& connection, RabbitMessage message, bool made_of_delivery,
                 Done done);
  // Calls `act` when all that was published before has its outcome, at once if it has.
  void After(std::function<void()> act);

  // Of what the connection gives. True: the event was of ours.
  Result<bool> Take(RabbitConnection& connection, const RabbitEvent& event);
  // The connection was lost, and there is a new one.
  void Lose();
  Status Resend(RabbitConnection& connection);

  size_t waiting() const { return sent_.size(); }
  size_t waiting_bytes() const { return bytes_; }
  bool idle() const { return sent_.empty() && acts_.empty(); }
  // Published again because the broker had refused them.
  uint64_t refused() const { return refused_; }

 private:
  struct Sent {
    uint64_t number = 0;  // of the channel
    uint64_t order = 0;   // of ours: goes on over connections
    RabbitMessage message;
    bool made_of_delivery = false;
    bool returned = false;
    bool repeated = false;  // after a refusal: it stands behind what was published later
    Done done;
  };
  struct Act {
    uint64_t order = 0;  // of the last message that must be safe
    std::function<void()> act;
  };
  Status Settle(RabbitConnection& connection, uint64_t number, bool multiple, bool taken);
  void RunActs();

  const uint16_t channel_;
  std::deque<Sent> sent_;  // by number
  std::deque<Act> acts_;
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
  uint64_t next_order_ = 1;
  uint64_t refused_ = 0;
  size_t repeated_ = 0;  // of those that wait
};

}  // namespace tidemill
