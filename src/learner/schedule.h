// The learning rate of each step: a linear warm-up, then constant or falling.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/status.h"

namespace tidemill {

enum class Decay : uint8_t { kConstant, kCosine, kLinear };

// kInvalid names the known ones.
Result<Decay> ParseDecay(std::string_view name);

struct LearningRateSchedule {
  double peak = 1e-4;
  uint64_t warmup_steps = 0;  // steps over which the rate rises from peak/warmup_steps to the peak
  Decay decay = Decay::kConstant;
  uint64_t total_steps = 0;     // when the rate has fallen to its floor; for kCosine and kLinear
  double floor_fraction = 0.0;  // of the peak
};

Status ValidateSchedule(const LearningRateSchedule& schedule);

// `step` counts from 0.
double LearningRateAt(const LearningRateSchedule& schedule, uint64_t step);

}  // namespace tidemill
