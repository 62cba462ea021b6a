// V-trace (Espeholt et al. 2018, IMPALA): value targets and advantages from a trajectory that an
// older policy drew.
#pragma once

#include <span>
#include <vector>

namespace tidemill {

struct VtraceCaps {
  double rho_cap = 1.0;     // on the ratio in the temporal difference; decides what V converges to
  double c_cap = 1.0;       // on the ratio in the trace; decides how fast
  double pg_rho_cap = 1.0;  // on the ratio in the policy gradient
};

// One trajectory; every span has the same length T.
struct VtraceInput {
  std::span<const double> log_ratio;  // log of learner's over sampler's probability
  std::span<const double> rewards;
  std::span<const double> discounts;  // 0 where the episode ends
  std::span<const double> values;
  double bootstrap = 0;  // V and vs behind the last step
};

struct VtraceOutput {
  std::vector<double> vs;          // what the values should have been
  std::vector<double> advantages;  // for the policy gradient
};

VtraceOutput ComputeVtrace(const VtraceInput& input, const VtraceCaps& caps);

}  // namespace tidemill
