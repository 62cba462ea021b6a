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

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/redis/redis_local.h"
#include "core/blob_store.h"
#include "core/metrics.h"
#include "core/mutex.h"

namespace tidemill {

struct RedisBusOptions {
  std::string url;              // see ParseRedisUrl
  std::string run = "default";  // names the run; part of every key
  std::string client;           // a name for people, part of this client's own; may be empty

  size_t inline_max = 256 * 1024;  // larger bodies do not travel in the stream but ..
  BlobStore* blobs = nullptr;      // .. through this, if given (it must outlive the bus), or
  Duration body_ttl = std::chrono::hours(24);  // .. a key that lasts this long

  RedisLocalOptions local;                     // bounds of what waits to be sent
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

// Since the bus was connected.
struct RedisBusStats {
  uint64_t reconnects = 0;
  uint64_t refused = 0;     // publishes the server had no room for, tried again
  uint64_t forced = 0;      // of those, sent above capacity in the end
  uint64_t lost = 0;        // leases that had run out on the server when a call wanted to end them
  uint64_t dropped = 0;     // messages to topics or inboxes that were removed meanwhile
  uint64_t given_back = 0;  // fetched and not received
  uint64_t no_memory = 0;   // batches the server had no memory for
};

// Shared by the callers' side and the I/O thread.
struct RedisShared {
  RedisShared(const RedisLocalOptions& options, const Clock& clock) : local(options, clock) {}
  Mutex mutex;
  CondVar settled;  // everything asked for so far was done
  RedisLocal local TM_GUARDED_BY(mutex);
  bool closed TM_GUARDED_BY(mutex) = false;
  Time closed_at TM_GUARDED_BY(mutex){};  // real time
  size_t renewals_under_way TM_GUARDED_BY(mutex) = 0;
  RedisBusStats stats TM_GUARDED_BY(mutex);
  uint64_t losses TM_GUARDED_BY(mutex) = 0;

  bool Settled() const TM_REQUIRES(mutex) { return local.Idle() && renewals_under_way == 0; }
};

class RedisIo;

class RedisBus final : public Bus {
 public:
  // Waits for the server, connect_timeout at most. kInvalid: the URL is wrong, the server refused
  // us, is older than 7.0 or may evict keys; kUnavailable: it did not answer.
  static Result<std::unique_ptr<RedisBus>> Connect(RedisBusOptions options);
  ~RedisBus() override;

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
  // As last heard; each call asks for a fresher one. kUnavailable: a topic another client opened,
  // of which nothing was heard yet.
  Result<TopicDepth> Depth(std::string_view topic) override;
  uint64_t Losses() override;
  void Subscribe(std::string_view topic, Waker& waker) override;
  void Unsubscribe(Waker& waker) override;
  // The same for all there are: before the loops go that they belong to.
  void UnsubscribeAll();
  Status Remove(std::string_view topic) override;
  // Messages that are held or were fetched go back at once; the destructor waits until that is
  // done.
  void Close() override;

  // Waits until all calls so far have taken effect; not for loops. kTimeout: they have not.
  Status Flush(Duration patience);
  // The topics of the run that are known here, whoever opened them.
  std::vector<std::string> Topics();
  RedisBusStats Stats();

 private:
  explicit RedisBus(RedisBusOptions options);
  void WakeTopic(const std::string& topic);
  // Runs `use(local)` under the lock and tells the I/O thread. kClosed after Close().
  template <typename Use>
  auto With(Use use) -> decltype(use(std::declval<RedisLocal&>()));

  const RedisBusOptions options_;
  RealClock real_clock_;
  RedisShared shared_;
  Mutex wakers_mutex_;  // held while waking; never together with shared_.mutex
  std::map<std::string, std::vector<Waker*>, std::less<>> wakers_ TM_GUARDED_BY(wakers_mutex_);
  std::unique_ptr<RedisIo> io_;
};

// Deletes every key of a run. For tests, benchmarks and people who clean up.
Status RemoveRedisRun(const std::string& url, std::string_view run);

// To Prometheus.
void SinkBus(const RedisBusStats& stats, MetricSink& sink);

}  // namespace tidemill
