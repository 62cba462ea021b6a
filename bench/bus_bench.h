// How fast the buses carry messages: publish, receive, acknowledge.
#pragma once

#include <cstddef>
#include <string>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct BusBenchOptions {
  size_t payload_bytes = 1024;
  Duration time = std::chrono::seconds(2);  // for each measurement
  // "redis://host:port/db" to measure RedisBus as well, beside a bare hiredis pipeline that sends
  // the same commands with the same payloads; empty: MemoryBus only.
  std::string redis_url;
};

struct BusBenchReport {
  size_t payload_bytes = 0;
  // One thread, one message at a time.
  double memory_round_trips_per_s = 0;
  // One thread, many messages on their way. Zero without a redis_url.
  double redis_round_trips_per_s = 0;
  double bare_round_trips_per_s = 0;
  double redis_ratio = 0;  // RedisBus by the bare pipeline

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// kUnavailable, kInvalid: the Redis named cannot be used. Leaves nothing behind there.
Result<BusBenchReport> RunBusBench(const BusBenchOptions& options);

}  // namespace tidemill
