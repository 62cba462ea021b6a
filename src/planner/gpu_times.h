// Service times of a GPU that is not here, by what a step moves and computes, at efficiencies that
// were measured on an H200 (docs/gpu.md).
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "model/model_config.h"
#include "planner/plan_fleet.h"
#include "planner/service_times.h"

namespace tidemill {

// Episodes where no run says how they are; medians, log-normal around them.
struct EpisodeGuess {
  uint32_t turns = 4;
  uint32_t prompt_tokens = 512;
  uint32_t turn_tokens = 256;
  uint32_t observation_tokens = 256;
  double tool_s = 1;    // of a core, one call a turn
  double grade_s = 2;   // of a core
  double spread = 0.7;  // sigma
  double pass_rate = 0.5;
};

// "turns=8,tool_s=5". kInvalid names the word.
Result<EpisodeGuess> ParseEpisodeGuess(const std::string& text);
// Replaces the episodes of `times`.
void GuessEpisodes(const EpisodeGuess& guess, uint64_t seed, ServiceTimes& times);

// Of a GPU as it is sold, less what the driver takes. kInvalid as below.
Result<uint64_t> GpuMemoryBytes(const std::string& gpu);

// Replaces engine and trainer of `times`. kInvalid: no such GPU, with those that there are.
Status SetGpuTimes(const PlanFleet& fleet, const RunConfig& config, const ModelConfig& model,
                   ServiceTimes& times);

}  // namespace tidemill
