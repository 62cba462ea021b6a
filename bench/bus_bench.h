// How fast the buses carry messages: publish, receive, acknowledge.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct BusBenchOptions {
  size_t payload_bytes = 1024;
  Duration time = std::chrono::seconds(2);  // for each measurement
  // Brokers to measure as well, each beside its bare client that does the same with the same
  // payloads: "redis://host:port/db", "amqp://host:port/vhost". Empty: MemoryBus only.
  std::vector<std::string> urls;
};

struct BrokerRates {
  std::string broker;  // "redis", "rabbitmq"
  // One thread, many messages on their way.
  double round_trips_per_s = 0;
  double bare_round_trips_per_s = 0;
  double ratio() const { return round_trips_per_s / bare_round_trips_per_s; }
};

struct BusBenchReport {
  size_t payload_bytes = 0;
  // One thread, one message at a time.
  double memory_round_trips_per_s = 0;
  std::vector<BrokerRates> brokers;

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// kUnavailable, kInvalid: a broker named cannot be used. Leaves nothing behind there.
Result<BusBenchReport> RunBusBench(const BusBenchOptions& options);

}  // namespace tidemill
