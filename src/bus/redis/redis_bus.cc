#include "bus/redis/redis_bus.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <utility>

#include "bus/redis/redis_connection.h"
#include "bus/redis/redis_io.h"
#include "bus/redis/redis_scripts.h"
#include "bus/redis/redis_url.h"
#include "bus/topic_rules.h"

namespace tidemill {
RedisBus::RedisBus(RedisBusOptions options)
    : options_(std::move(options)),
      shared_(options_.local, options_.clock != nullptr ? *options_.clock : real_clock_) {}

Result<std::unique_ptr<RedisBus>> RedisBus::Connect(RedisBusOptions options) {
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(options.url));
  TM_RETURN_IF_ERROR(CheckRedisRun(options.run));
  std::unique_ptr<RedisBus> bus(new RedisBus(std::move(options)));
  TopicOptions dead;
  dead.capacity = kDeadCapacity;
  {
    MutexLock lock(bus->shared_.mutex);
    bus->shared_.local.OpenDeadLetters(dead);
  }
  const Clock& clock = bus->options_.clock != nullptr ? *bus->options_.clock : bus->real_clock_;
  bus->io_ = std::make_unique<RedisIo>(
      bus->options_, std::move(address), clock, bus->shared_,
      [raw = bus.get()](const std::string& topic) { raw->WakeTopic(topic); });
  TM_RETURN_IF_ERROR(bus->io_->Start());
  return bus;
}

RedisBus::~RedisBus() {
  Close();
  io_.reset();
}

template <typename Use>
auto RedisBus::With(Use use) -> decltype(use(std::declval<RedisLocal&>())) {
  decltype(use(std::declval<RedisLocal&>())) result = Closed("the bus is closed");
  {
    MutexLock lock(shared_.mutex);
    if (shared_.closed) return result;
    result = use(shared_.local);
  }
  io_->Signal();
  return result;
}

Status RedisBus::Open(std::string_view topic, const TopicOptions& options) {
  return With([&](RedisLocal& local) { return local.Open(topic, options); });
}
Status RedisBus::Publish(std::string_view topic, std::string body) {
  return With([&](RedisLocal& local) { return local.Publish(topic, std::move(body)); });
}
Status RedisBus::PublishRequest(std::string_view topic, std::string_view inbox, std::string body) {
  return With(
      [&](RedisLocal& local) { return local.PublishRequest(topic, inbox, std::move(body)); });
}
Status RedisBus::PublishReply(std::string_view inbox, std::string body) {
  return With([&](RedisLocal& local) { return local.PublishReply(inbox, std::move(body)); });
}
Status RedisBus::Forgive(std::string_view inbox, size_t count) {
  return With([&](RedisLocal& local) { return local.Forgive(inbox, count); });
}
Result<std::vector<Lease>> RedisBus::Receive(std::string_view topic, size_t max) {
  return With([&](RedisLocal& local) { return local.Receive(topic, max); });
}
Status RedisBus::Ack(const Lease& lease) {
  return With([&](RedisLocal& local) { return local.Ack(lease); });
}
Status RedisBus::Extend(const Lease& lease) {
  return With([&](RedisLocal& local) { return local.Extend(lease); });
}
Status RedisBus::Release(const Lease& lease, Duration delay) {
  return With([&](RedisLocal& local) { return local.Release(lease, delay); });
}
Status RedisBus::Reject(const Lease& lease, std::string_view reason) {
  return With([&](RedisLocal& local) { return local.Reject(lease, reason); });
}
Result<TopicDepth> RedisBus::Depth(std::string_view topic) {
  return With([&](RedisLocal& local) { return local.Depth(topic); });
}
Status RedisBus::Remove(std::string_view topic) {
  return With([&](RedisLocal& local) { return local.Remove(topic); });
}

void RedisBus::Subscribe(std::string_view topic, Waker& waker) {
  {
    MutexLock lock(wakers_mutex_);
    auto found = wakers_.find(topic);
    if (found == wakers_.end()) found = wakers_.emplace(std::string(topic), 0).first;
    found->second.push_back(&waker);
  }
  bool fetched;
  {
    MutexLock lock(shared_.mutex);
    RedisTopic& known = shared_.local.FindOrAdd(topic);
    ++known.listeners;
    known.tick_now = true;  // it wakes if there is something
    fetched = !known.fetched.empty();
  }
  if (fetched) WakeTopic(std::string(topic));
  io_->Signal();
}

void RedisBus::UnsubscribeAll() {
  std::map<std::string, std::vector<Waker*>, std::less<>> left;
  {
    MutexLock lock(wakers_mutex_);
    left.swap(wakers_);
  }
  MutexLock lock(shared_.mutex);
  for (const auto& [topic, wakers] : left) {
    if (RedisTopic* known = shared_.local.Find(topic); known != nullptr) {
      known->listeners -= wakers.size();
    }
  }
}

void RedisBus::Unsubscribe(Waker& waker) {
  std::vector<std::pair<std::string, size_t>> left;
  {
    MutexLock lock(wakers_mutex_);
    for (auto& [topic, wakers] : wakers_) {
      const size_t count = std::erase(wakers, &waker);
      if (count > 0) left.emplace_back(topic, count);
    }
  }
  MutexLock lock(shared_.mutex);
  for (const auto& [topic, count] : left) {
    if (RedisTopic* known = shared_.local.Find(topic); known != nullptr) known->listeners -= count;
  }
}

void RedisBus::WakeTopic(const std::string& topic) {
  MutexLock lock(wakers_mutex_);
  auto found = wakers_.find(topic);
  if (found == wakers_.end()) return;
  for (Waker* waker : found->second) waker->Wake();
}

void RedisBus::Close() {
  {
    MutexLock lock(shared_.mutex);
    if (shared_.closed) return;
    shared_.local.GiveAllBack();
    shared_.closed = true;
    shared_.closed_at = real_clock_.Now();
  }
  if (io_ != nullptr) io_->Signal();
  MutexLock lock(wakers_mutex_);
  for (const auto& [topic, wakers] : wakers_) {
    for (Waker* waker : wakers) waker->Wake();
  }
}

Status RedisBus::Flush(Duration patience) {
  MutexLock lock(shared_.mutex);
  const bool settled = shared_.settled.WaitFor(
      lock, patience, [this]() TM_REQUIRES(shared_.mutex) { return shared_.Settled(); });
  return settled ? Ok() : Timeout("redis has not executed all calls yet");
}

std::vector<std::string> RedisBus::Topics() {
  MutexLock lock(shared_.mutex);
  std::vector<std::string> names;
  for (const auto& [name, topic] : shared_.local.topics()) {
    if (topic.open) names.push_back(name);
  }
  return names;
}

uint64_t RedisBus::Losses() {
  MutexLock lock(shared_.mutex);
  return shared_.losses;
}

RedisBusStats RedisBus::Stats() {
  MutexLock lock(shared_.mutex);
  RedisBusStats stats = shared_.stats;
  stats.given_back = shared_.local.given_back();
  return stats;
}

Status RemoveRedisRun(const std::string& url, std::string_view run) {
  constexpr Duration kTimeout = std::chrono::seconds(5);
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(url));
  TM_ASSIGN_OR_RETURN(auto connection, RedisConnection::Connect(address, kTimeout));
  const std::string pattern = RedisKeys(run).prefix + "*";
  std::string cursor = "0";
  do {
    TM_ASSIGN_OR_RETURN(
        ReplyPtr page,
        connection->Call({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, kTimeout));
    if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) {
      return Unavailable("redis: SCAN: " + std::string(ReplyText(*page)));
    }
    cursor = ReplyText(*page->element[0]);
    for (size_t i = 0; i < page->element[1]->elements; ++i) {
      const std::string_view key = ReplyText(*page->element[1]->element[i]);
      TM_ASSIGN_OR_RETURN(ReplyPtr gone, connection->Call({"UNLINK", key}, kTimeout));
    }
  } while (cursor != "0");
  return Ok();
}

void SinkBus(const RedisBusStats& stats, MetricSink& sink) {
  const auto total = [&](const char* name, const char* help, uint64_t count) {
    sink.Counter(name, help, static_cast<double>(count));
  };
  total("tidemill_bus_reconnects_total", "Reconnections to Redis", stats.reconnects);
  total("tidemill_bus_refused_total", "Publishes refused by a full topic and retried",
        stats.refused);
  total("tidemill_bus_forced_total",
        "Messages published above a topic's capacity to avoid a deadlock", stats.forced);
  total("tidemill_bus_leases_lost_total", "Leases that had already expired when the work finished",
        stats.lost);
  total("tidemill_bus_dropped_total", "Messages dropped because their topic was removed",
        stats.dropped);
  total("tidemill_bus_no_memory_total", "Batches refused because Redis had no memory left",
        stats.no_memory);
  total("tidemill_bus_given_back_total", "Messages fetched but returned unprocessed",
        stats.given_back);
}

}  // namespace tidemill
