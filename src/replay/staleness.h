// How old the tokens of a trajectory are, and which are too old for a loss. It is decided here and
// nowhere else: the learner leaves out what is marked.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "core/version_steps.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct StalenessBound {
  uint64_t hard_max_steps =
      8;  // most steps between the version that drew a token and the step that uses it
  double max_minutes = 0;  // most minutes since it was drawn; 0: no bound
  bool mask = false;       // leave single tokens out; false: drop the whole trajectory
};

struct TokenAges {
  uint64_t max_lag = 0;  // over all tokens of the model
  uint64_t min_lag = 0;
  uint32_t tokens = 0;
  uint32_t too_old = 0;  // tokens over the bound
};

TokenAges MeasureAges(const v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                      int64_t now_ms, const StalenessBound& bound);

// kInvalid: some token is of a version that was never published.
Status CheckVersions(const v1::Trajectory& trajectory, const VersionSteps& versions);

// Marks the runs of tokens that are over the bound, and only those, for the learner to leave out.
// Returns how many tokens.
uint32_t MaskTooOld(v1::Trajectory& trajectory, const VersionSteps& versions, uint64_t step,
                    int64_t now_ms, const StalenessBound& bound);

}  // namespace tidemill
