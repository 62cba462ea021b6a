// The figures a loop keeps of itself. Each is declared once, as a member of the loop's CounterSet,
// and reaches every place that shows figures from there: the run's snapshot, metrics.jsonl, the
// summary, Prometheus and the fleet's totals.
//
//   struct RewardCounters : CounterSet {
//     Counter retries{*this, {.key = "reward_retries", .metric = "tidemill_retries_total", ..}};
//   };
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/loop_runner.h"
#include "core/metrics.h"

namespace tidemill {

class CounterSet;

// A number that its loop changes and any thread reads.
class Counter {
 public:
  enum class Kind : uint8_t {
    kTotal,     // only grows; added up over processes
    kRunTotal,  // only grows; what earlier processes of the run did is in it
    kLevel,     // as it is now
  };
  struct About {
    std::string key;     // unique in a run: its name in metrics.jsonl and the summary
    std::string metric;  // its name for Prometheus; empty: not there
    std::string help;    // one line for people
    Kind kind = Kind::kTotal;
    Labels labels = {};
    double scale = 1;  // of the Prometheus metric: 1e-6 turns microseconds into seconds
  };

  Counter(CounterSet& set, About about);
  Counter(const Counter&) = delete;

  operator uint64_t() const { return load(); }
  uint64_t load() const { return value_.load(std::memory_order_relaxed); }
  Counter& operator=(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Counter& operator=(const Counter&) = delete;
  Counter& operator+=(uint64_t more) {
    value_.fetch_add(more, std::memory_order_relaxed);
    return *this;
  }
  Counter& operator-=(uint64_t less) {
    value_.fetch_sub(less, std::memory_order_relaxed);
    return *this;
  }
  Counter& operator++() { return *this += 1; }
  Counter& operator--() { return *this -= 1; }

  const About& about() const { return about_; }

 private:
  const About about_;
  std::atomic<uint64_t> value_{0};
};

// The description of a counter, by its key.
using CounterTable = std::map<std::string, Counter::About>;

// Derive from it and declare the counters as members.
class CounterSet {
 public:
  CounterSet() = default;
  CounterSet(const CounterSet&) = delete;
  CounterSet& operator=(const CounterSet&) = delete;

  const std::vector<const Counter*>& all() const { return counters_; }

 private:
  friend class Counter;
  std::vector<const Counter*> counters_;
};

inline Counter::Counter(CounterSet& set, About about) : about_(std::move(about)) {
  set.counters_.push_back(this);
}

// To Prometheus.
void SinkCounters(const CounterSet& set, MetricSink& sink);
void SinkUsage(const std::vector<LoopUsage>& loops, MetricSink& sink);

}  // namespace tidemill
