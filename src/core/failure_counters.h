// A counter for each kind of failure (core/fate.h), so that none hides in a total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "core/counters.h"
#include "core/fate.h"

namespace tidemill {

class FailureCounters {
 public:
  // Their keys are `about.key` and the row's; the metric is one, with the label "kind".
  FailureCounters(CounterSet& set, const Counter::About& about) {
    for (const FailureRow& row : kFailures) {
      Counter::About one = about;
      one.key += row.key;
      one.labels["kind"] = row.key;
      counters_.emplace_back(set, std::move(one));
    }
  }

  void Add(Failure failure) { ++counters_[static_cast<size_t>(failure)]; }
  uint64_t of(Failure failure) const { return counters_[static_cast<size_t>(failure)]; }

 private:
  std::deque<Counter> counters_;  // they do not move
};

}  // namespace tidemill
