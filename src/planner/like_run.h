// What a run's own records say: how its episodes were made, and how long its ports took.
//
//   run.db, metrics.jsonl, config.toml -> ReadLikeRun -> service times, layout, what was measured
//
// Times in records are those of ports that shared the machine's cores. They are scaled until the
// plan of the run itself has the ports busy for as long as they were.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "planner/planned_run.h"

namespace tidemill {

// From the start of the run, or its resumption, to its last step.
struct MeasuredRun {
  double seconds = 0;
  double episodes_per_s = 0;  // scored
  double generated_tokens_per_s = 0;
  double lag_mean = 0;
  double too_old = 0;  // share of the scored episodes
  uint64_t steps = 0;
  double engine_busy = 0, trainer_busy = 0, boxes_busy = 0, store_busy = 0;  // shares
  double calls = 0;  // of tools, gradings included
};

struct LikeRun {
  std::string name;
  std::string config_file;
  RunConfig config;
  PlanLayout layout;
  ServiceTimes times;
  MeasuredRun measured;
};

// `folder`: the run's. `cores`: of the machine it ran on, which its records do not say. kNotFound,
// kInvalid and kUnavailable name the run and what it lacks.
Result<LikeRun> ReadLikeRun(const std::string& folder, uint32_t cores);

}  // namespace tidemill
