// The bus on Redis Streams (Redis 7.0 or later, or Valkey): for loops on many machines.
//
//   caller --Publish, Ack, ..--> local view --calls, in order--> I/O thread --scripts--> server
//   caller <--Receive----------- local view <--fetched on demand-- I/O thread <--XREADGROUP--
//
// Every call is answered at once from the local view. Ok means: the call will take effect, in its
// order, for as long as this process lives, through any number of reconnects; Close() and the
// destructor wait a bounded time for that. Leases and delays run by the server's clock; the local
// view measures them by the Clock given. docs/bus.md has the keys, the scripts and the ways it can
// fail.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bus/broker_bus.h"
#include "core/blob_store.h"
#include "core/clock.h"

namespace tidemill {

struct RedisBusOptions {
  std::string url;              // see ParseRedisUrl
  std::string run = "default";  // names the run; part of every key
  std::string client;           // a name for people, part of this client's own; may be empty

  size_t inline_max = 256 * 1024;  // larger bodies do not travel in the stream but ..
  BlobStore* blobs = nullptr;      // .. through this, if given (it must outlive the bus), or
  Duration body_ttl = std::chrono::hours(24);  // .. a key that lasts this long

  ClientViewOptions local;                     // bounds of what waits to be sent
  Duration tick = milliseconds(250);           // how often topics are looked after
  Duration linger = milliseconds(500);         // how long something fetched waits for Receive
  Duration full_patience = milliseconds(250);  // see docs/bus.md, "A topic that stays full"
  Duration connect_timeout = std::chrono::seconds(5);
  Duration answer_timeout = std::chrono::seconds(10);
  Duration reconnect_min = milliseconds(50);
  Duration reconnect_max = std::chrono::seconds(5);
  Duration close_patience = std::chrono::seconds(5);
  const Clock* clock = nullptr;  // null: real time
};

class RedisBus final : public BrokerBus {
 public:
  // Waits for the server, connect_timeout at most. kInvalid: the URL is wrong, the server refused
  // us, is older than 7.0 or may evict keys; kUnavailable: it did not answer.
  static Result<std::unique_ptr<RedisBus>> Connect(RedisBusOptions options);
  ~RedisBus() override { End(); }

 private:
  explicit RedisBus(RedisBusOptions options);

  const RedisBusOptions options_;
};

// Deletes every key of a run. For tests, benchmarks and people who clean up.
Status RemoveRedisRun(const std::string& url, std::string_view run);

}  // namespace tidemill
