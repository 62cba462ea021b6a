#include "learner/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tidemill {

Result<Decay> ParseDecay(std::string_view name) {
  if (name == "constant") return Decay::kConstant;
  if (name == "cosine") return Decay::kCosine;
  if (name == "linear") return Decay::kLinear;
  return Invalid("unknown learning-rate decay \"" + std::string(name) +
                 "\"; known are constant, cosine, linear");
}

Status ValidateSchedule(const LearningRateSchedule& s) {
  if (!(s.peak >= 0) || !std::isfinite(s.peak)) {
    return Invalid("the learning rate must be a number of at least 0, got " +
                   std::to_string(s.peak));
  }
  if (!(s.floor_fraction >= 0 && s.floor_fraction <= 1)) {
    return Invalid("the learning rate's floor must be a fraction from 0 to 1, got " +
                   std::to_string(s.floor_fraction));
  }
  if (s.decay != Decay::kConstant && s.total_steps <= s.warmup_steps) {
    return Invalid("a decaying learning rate needs more steps in total (" +
                   std::to_string(s.total_steps) + ") than for the warm-up (" +
                   std::to_string(s.warmup_steps) + ")");
  }
  return Ok();
}

double LearningRateAt(const LearningRateSchedule& s, uint64_t step) {
  if (step < s.warmup_steps) {
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  if (s.decay == Decay::kConstant) return s.peak;
  const double span = static_cast<double>(s.total_steps - s.warmup_steps);
  const double done = std::min(1.0, static_cast<double>(step - s.warmup_steps) / span);
  const double left = s.decay == Decay::kLinear ? 1 - done : 0.5 * (1 + std::cos(M_PI * done));
  return s.peak * (s.floor_fraction + (1 - s.floor_fraction) * left);
}

}  // namespace tidemill
