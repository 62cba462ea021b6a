// Which layout of a fleet trains the most episodes a second within a bound on lag, and what more of
// it would buy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "planner/plan_fleet.h"

namespace tidemill {

// What a search may change. The batch stays: it changes what is learned from an episode.
struct LayoutChoice {
  uint32_t ranks = 1;
  uint32_t max_in_flight = 256;
  uint32_t max_steps = 2;  // staleness
  std::string Text() const;
};

struct FoundLayout {
  LayoutChoice choice;
  PlanReport report;
};

struct LayoutSearch {
  double lag_max = 8;  // mean, in steps
  // Service times of a fleet: a search also asks for one that is a little larger.
  std::function<Result<ServiceTimes>(const PlanFleet&)> times;
  std::function<void(const FoundLayout&)> tried;  // may be empty
};

struct BestLayout {
  FoundLayout best;
  size_t plans = 0;
  // Trained episodes a second with them; nothing: there is no such fleet.
  std::optional<FoundLayout> one_more_gpu;
  FoundLayout ten_more_cores;
};

// kUnavailable: no layout stays within the bound.
Result<BestLayout> FindLayout(const RunConfig& config, const PlanFleet& fleet,
                              const LayoutSearch& search);

// The config with the choice.
RunConfig With(const RunConfig& config, const LayoutChoice& choice);

}  // namespace tidemill
