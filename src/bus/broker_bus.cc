#include "bus/broker_bus.h"

#include <algorithm>
#include <utility>

namespace tidemill {

BrokerBus::BrokerBus(const ClientViewOptions& options, const Clock* clock)
    : clock_(clock), shared_(options, clock != nullptr ? *clock : real_clock_) {}

BrokerBus::~BrokerBus() = default;

void BrokerBus::End() {
  Close();
  carrier_.reset();
}

template <typename Use>
auto BrokerBus::With(Use use) -> decltype(use(std::declval<ClientView&>())) {
  decltype(use(std::declval<ClientView&>())) result = Closed("the bus is closed");
  {
    MutexLock lock(shared_.mutex);
    if (shared_.closed) return result;
    result = use(shared_.local);
  }
  carrier_->Signal();
  return result;
}

Status BrokerBus::Open(std::string_view topic, const TopicOptions& options) {
  return With([&](ClientView& local) { return local.Open(topic, options); });
}
Status BrokerBus::Publish(std::string_view topic, std::string body) {
  return With([&](ClientView& local) { return local.Publish(topic, std::move(body)); });
}
Status BrokerBus::PublishRequest(std::string_view topic, std::string_view inbox, std::string body) {
  return With(
      [&](ClientView& local) { return local.PublishRequest(topic, inbox, std::move(body)); });
}
Status BrokerBus::PublishReply(std::string_view inbox, std::string body) {
  return With([&](ClientView& local) { return local.PublishReply(inbox, std::move(body)); });
}
Status BrokerBus::Forgive(std::string_view inbox, size_t count) {
  return With([&](ClientView& local) { return local.Forgive(inbox, count); });
}
Result<std::vector<Lease>> BrokerBus::Receive(std::string_view topic, size_t max) {
  return With([&](ClientView& local) { return local.Receive(topic, max); });
}
Status BrokerBus::Ack(const Lease& lease) {
  return With([&](ClientView& local) { return local.Ack(lease); });
}
Status BrokerBus::Extend(const Lease& lease) {
  return With([&](ClientView& local) { return local.Extend(lease); });
}
Status BrokerBus::Release(const Lease& lease, Duration delay) {
  return With([&](ClientView& local) { return local.Release(lease, delay); });
}
Status BrokerBus::Reject(const Lease& lease, std::string_view reason) {
  return With([&](ClientView& local) { return local.Reject(lease, reason); });
}
Result<TopicDepth> BrokerBus::Depth(std::string_view topic) {
  return With([&](ClientView& local) { return local.Depth(topic); });
}
Status BrokerBus::Remove(std::string_view topic) {
  return With([&](ClientView& local) { return local.Remove(topic); });
}

void BrokerBus::Subscribe(std::string_view topic, Waker& waker) {
  {
    MutexLock lock(wakers_mutex_);
    auto found = wakers_.find(topic);
    if (found == wakers_.end()) found = wakers_.emplace(std::string(topic), 0).first;
    found->second.push_back(&waker);
  }
  bool fetched;
  {
    MutexLock lock(shared_.mutex);
    ViewedTopic& known = shared_.local.FindOrAdd(topic);
    ++known.listeners;
    known.tick_now = true;  // it wakes if there is something
    fetched = !known.fetched.empty();
  }
  if (fetched) WakeTopic(std::string(topic));
  carrier_->Signal();
}

void BrokerBus::UnsubscribeAll() {
  std::map<std::string, std::vector<Waker*>, std::less<>> left;
  {
    MutexLock lock(wakers_mutex_);
    left.swap(wakers_);
  }
  MutexLock lock(shared_.mutex);
  for (const auto& [topic, wakers] : left) {
    if (ViewedTopic* known = shared_.local.Find(topic); known != nullptr) {
      known->listeners -= wakers.size();
    }
  }
}

void BrokerBus::Unsubscribe(Waker& waker) {
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
    if (ViewedTopic* known = shared_.local.Find(topic); known != nullptr) known->listeners -= count;
  }
}

void BrokerBus::WakeTopic(const std::string& topic) {
  MutexLock lock(wakers_mutex_);
  auto found = wakers_.find(topic);
  if (found == wakers_.end()) return;
  for (Waker* waker : found->second) waker->Wake();
}

void BrokerBus::Close() {
  {
    MutexLock lock(shared_.mutex);
    if (shared_.closed) return;
    shared_.local.GiveAllBack();
    shared_.closed = true;
    shared_.closed_at = real_clock_.Now();
  }
  if (carrier_ != nullptr) carrier_->Signal();
  MutexLock lock(wakers_mutex_);
  for (const auto& [topic, wakers] : wakers_) {
    for (Waker* waker : wakers) waker->Wake();
  }
}

Status BrokerBus::Flush(Duration patience) {
  MutexLock lock(shared_.mutex);
  const bool settled = shared_.settled.WaitFor(
      lock, patience, [this]() TM_REQUIRES(shared_.mutex) { return shared_.Settled(); });
  return settled ? Ok() : Timeout("the broker has not executed all calls yet");
}

std::vector<std::string> BrokerBus::Topics() {
  MutexLock lock(shared_.mutex);
  std::vector<std::string> names;
  for (const auto& [name, topic] : shared_.local.topics()) {
    if (topic.open) names.push_back(name);
  }
  return names;
}

uint64_t BrokerBus::Losses() {
  MutexLock lock(shared_.mutex);
  return shared_.losses;
}

BrokerBusStats BrokerBus::Stats() {
  MutexLock lock(shared_.mutex);
  BrokerBusStats stats = shared_.stats;
  stats.given_back = shared_.local.given_back();
  return stats;
}

void SinkBus(const BrokerBusStats& stats, MetricSink& sink) {
  const auto total = [&](const char* name, const char* help, uint64_t count) {
    sink.Counter(name, help, static_cast<double>(count));
  };
  total("tidemill_bus_reconnects_total", "Reconnections to the broker", stats.reconnects);
  total("tidemill_bus_refused_total", "Publishes refused by a full topic and retried",
        stats.refused);
  total("tidemill_bus_forced_total",
        "Messages published above a topic's capacity to avoid a deadlock", stats.forced);
  total("tidemill_bus_leases_lost_total", "Leases that had already expired when the work finished",
        stats.lost);
  total("tidemill_bus_dropped_total", "Messages dropped because their topic was removed",
        stats.dropped);
  total("tidemill_bus_no_memory_total", "Batches refused because the broker had no memory left",
        stats.no_memory);
  total("tidemill_bus_given_back_total", "Messages fetched but returned unprocessed",
        stats.given_back);
}

}  // namespace tidemill
