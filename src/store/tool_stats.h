// The outcomes of a run's tool calls. They are inside the bodies of episodes, so this reads the
// bodies once, a little at a time, and keeps sums.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "store/sqlite.h"

namespace tidemill {

// Counts by doubling bounds: 1 ms, 2 ms, 4 ms, .. over a minute in the last.
class LatencyHistogram {
 public:
  static constexpr size_t kBuckets = 18;
  void Add(double ms);
  uint64_t count() const { return count_; }
  // {"count", "mean_ms", "p50_ms", "p95_ms", "bounds_ms": [..], "counts": [..]}
  nlohmann::ordered_json ToJson() const;

 private:
  double Quantile(double q) const;

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  double sum_ms_ = 0;
};

// Belongs to one thread at a time.
class ToolStats {
 public:
  static constexpr size_t kToolsMax = 64;  // further names count as "other"

  // Takes in episodes stored since, for about `budget`; the rest at the next call.
  Status Advance(Database& db, std::chrono::milliseconds budget);
  // {"episodes_read", "episodes", "tools": [{"tool", "calls", "outcomes", "wait", "run", ..}]}
  nlohmann::ordered_json ToJson() const;
  uint64_t skipped() const { return skipped_; }
  uint64_t retries() const { return retries_; }
  uint64_t malformed() const { return malformed_; }
  bool complete() const { return complete_; }

 private:
  struct Tool {
    uint64_t calls = 0;
    uint64_t retries = 0;
    uint64_t skipped = 0;
    uint64_t tests_passed = 0;
    uint64_t tests_total = 0;
    std::map<std::string, uint64_t> outcomes;
    LatencyHistogram wait;   // from the request to the answer, as the episode saw it
    LatencyHistogram run;    // in the box
    LatencyHistogram queue;  // the difference: waiting, retries, the way there and back
  };
  void Take(const v1::Trajectory& trajectory);

  uint64_t last_seq_ = 0;
  uint64_t read_ = 0;
  uint64_t damaged_ = 0;
  uint64_t skipped_ = 0, retries_ = 0, malformed_ = 0;
  bool complete_ = false;
  std::map<std::string, Tool> tools_;
};

}  // namespace tidemill
