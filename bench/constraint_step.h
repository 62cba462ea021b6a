// A decode step of an engine with and without a constraint on every sequence.
#pragma once

#include <cstdint>
#include <memory>

#include "core/status.h"
#include "engine/constraint/constraint.h"

namespace tidemill {

struct ConstraintStepOptions {
  int sequences = 64;
  int tokens = 24;
  uint64_t seed = 1;
};

// Processor time of a step, the best of several rounds.
struct ConstraintStepReport {
  double plain_ms = 0, held_ms = 0;
};

// A model of random weights with the shapes of SmolLM2-135M and the constraint's vocabulary.
Result<ConstraintStepReport> MeasureConstraintStep(
    const std::shared_ptr<const Constraint>& constraint, const ConstraintStepOptions& options);

}  // namespace tidemill
