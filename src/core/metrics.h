// Counters, gauges and histograms of a process (prometheus-cpp), and the busy share of loops and
// ports. Names follow Prometheus' conventions: tidemill_..._total, ..._seconds.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"

namespace tidemill {

using Labels = std::map<std::string, std::string>;

// Takes figures that are kept elsewhere (a loop's counters, what a server says) when metrics are
// collected.
class MetricSink {
 public:
  void Counter(const std::string& name, const std::string& help, double value,
               const Labels& labels = {}) {
    Add(prometheus::MetricType::Counter, name, help, value, labels);
  }
  void Gauge(const std::string& name, const std::string& help, double value,
             const Labels& labels = {}) {
    Add(prometheus::MetricType::Gauge, name, help, value, labels);
  }

 private:
  friend class Metrics;
  void Add(prometheus::MetricType type, const std::string& name, const std::string& help,
           double value, const Labels& labels);
  std::map<std::string, prometheus::MetricFamily> families_;
};

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
                                   const Labels& labels = {},
                                   const std::vector<double>& bounds = {});

  // `source` is asked at every Collect, by the thread that collects, one at a time. What it reads
  // must be there whenever somebody collects.
  void AddSource(std::function<void(MetricSink&)> source);

  // Everything, by name; each sample also has the labels `common`.
  std::vector<prometheus::MetricFamily> Collect(const Labels& common = {});
  // The same in Prometheus' text format.
  std::string Text(const Labels& common = {});

 private:
  prometheus::Registry registry_;
  Mutex sources_mutex_;
  std::vector<std::function<void(MetricSink&)>> sources_ TM_GUARDED_BY(sources_mutex_);
};

// How much of the time something worked. One thread calls Begin and End; any thread may read.
class BusyMeter {
 public:
  void Begin(Time now) { since_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  void End(Time now) {
    const int64_t since = since_.exchange(-1, std::memory_order_relaxed);
    if (since >= 0)
      busy_ns_.fetch_add(now.time_since_epoch().count() - since, std::memory_order_relaxed);
  }
  // Busy time so far, what is under way included.
  Duration Busy(Time now) const {
    const int64_t since = since_.load(std::memory_order_relaxed);
    int64_t busy = busy_ns_.load(std::memory_order_relaxed);
    if (since >= 0) busy += now.time_since_epoch().count() - since;
    return Duration(busy);
  }
  // How long what is under way has taken; 0: nothing is.
  Duration UnderWay(Time now) const {
    const int64_t since = since_.load(std::memory_order_relaxed);
    return Duration(since >= 0 ? now.time_since_epoch().count() - since : 0);
  }

 private:
  std::atomic<int64_t> since_{-1};
  std::atomic<int64_t> busy_ns_{0};
};

}  // namespace tidemill
