// The lines a made-up run writes to metrics.jsonl, and what they are made of: totals that grow and
// time spent working.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "store/run_directory.h"
#include "testing/sample/sample_options.h"

namespace tidemill {

struct SampleTotals {
  double steps = 0, episodes = 0, scored = 0, solved = 0, stale = 0, tool_calls = 0, retries = 0,
         generated = 0, trained = 0;
};

// Time spent working, up to a moment that only grows.
class SampleWork {
 public:
  void Add(int64_t from_ms, int64_t to_ms) { spans_.emplace_back(from_ms, to_ms); }
  double Until(int64_t now);

 private:
  std::vector<std::pair<int64_t, int64_t>> spans_;
  double done_ = 0;
};

class SampleMetrics {
 public:
  using Json = nlohmann::ordered_json;

  // `options` and `random` must outlive it.
  SampleMetrics(MetricsLog log, const SampleOptions& options, Random& random);

  // A run writes its lines in the order of time; here some are known late, and wait for Flush.
  void Add(int64_t at_ms, const char* kind, const Json& fields);
  void Flush(int64_t end);
  // One line of totals as a run writes every second; `now` only grows.
  void Tick(int64_t now) { Tick(now, {now, totals}); }
  // Ticks up to a time before which everything is written; totals grow evenly over them.
  void TicksUntil(int64_t end);

  SampleTotals totals;
  SampleWork generating, boxes, training;

 private:
  struct TotalsAt {
    int64_t at_ms = 0;
    SampleTotals totals;
  };
  void Tick(int64_t now, const TotalsAt& reached);

  MetricsLog log_;
  const SampleOptions& options_;
  Random& random_;
  int64_t next_tick_ms_ = 0;
  TotalsAt last_;
  std::multimap<int64_t, std::string> lines_;  // by their time
};

}  // namespace tidemill
