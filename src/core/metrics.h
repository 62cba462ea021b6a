// Counters, gauges and histograms of a process (prometheus-cpp), and the busy share of loops and ports.
// Names follow Prometheus' conventions: tidemill_..._total, ..._seconds.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"

namespace tidemill {

using Labels = std::map<std::string, std::string>;

// Thread-safe. The references it gives live as long as it does: ask once, keep them.
class Metrics {
 public:
  Metrics();

  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               const Labels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                           const Labels& labels = {});
  // Bounds in seconds from 1 ms to 5 minutes unless given.
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const Labels& labels = {}, const std::vector<double>& bounds = {});

  prometheus::Registry& registry() { return *registry_; }

 private:
  std::shared_ptr<prometheus::Registry> registry_;  // shared: what serves /metrics holds it as well
};

// How much of the time something worked. One thread calls Begin and End; any thread may read.
class BusyMeter {
 public:
  void Begin(Time now) { since_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  void End(Time now) {
    const int64_t since = since_.exchange(-1, std::memory_order_relaxed);
    if (since >= 0) busy_ns_.fetch_add(now.time_since_epoch().count() - since, std::memory_order_relaxed);
  }
  // Busy time so far, what is under way included.
  Duration Busy(Time now) const {
    const int64_t since = since_.load(std::memory_order_relaxed);
    int64_t busy = busy_ns_.load(std::memory_order_relaxed);
    if (since >= 0) busy += now.time_since_epoch().count() - since;
    return Duration(busy);
  }

 private:
  std::atomic<int64_t> since_{-1};
  std::atomic<int64_t> busy_ns_{0};
};

}  // namespace tidemill
