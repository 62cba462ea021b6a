// The bus on RabbitMQ (3.10 or later, AMQP 0-9-1): for loops on many machines where there is no
// Redis.
//
// A topic is a queue. The broker knows no leases, no room that is reserved and no delays: a lease
// is a message that its holder has not acknowledged, and runs out by the holder's clock or with its
// connection; room is what the members of the run tell each other (rabbit_figures.h); a delayed
// message waits in a parking queue. docs/bus.md names what is weaker than on Redis.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bus/broker_bus.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct RabbitBusOptions {
  std::string url;              // see ParseRabbitUrl
  std::string run = "default";  // names the run; part of every queue's name
  std::string client;           // a name for people, part of this client's own; may be empty

  ClientViewOptions local;              // bounds of what waits to be sent
  Duration tick = milliseconds(250);    // how often topics are looked after
  Duration linger = milliseconds(500);  // how long something fetched waits for Receive
  Duration connect_timeout = std::chrono::seconds(5);
  Duration reconnect_min = milliseconds(50);
  Duration reconnect_max = std::chrono::seconds(5);
  Duration close_patience = std::chrono::seconds(5);
  // A host that says nothing for twice as long is gone, and what it held is delivered again.
  std::chrono::seconds heartbeat = std::chrono::seconds(10);
  const Clock* clock = nullptr;  // null: real time
};

class RabbitBus final : public BrokerBus {
 public:
  // Waits for the broker, connect_timeout at most. kInvalid: the URL is wrong, or the broker
  // refused us; kUnavailable: it did not answer.
  static Result<std::unique_ptr<RabbitBus>> Connect(RabbitBusOptions options);
  ~RabbitBus() override { End(); }

 private:
  explicit RabbitBus(RabbitBusOptions options);

  const RabbitBusOptions options_;
};

// Deletes the queues of a run, but those of single workers, which go by themselves.
Status RemoveRabbitRun(const std::string& url, std::string_view run);

}  // namespace tidemill
