#include "learner/vtrace.h"

#include <algorithm>
#include <cmath>

#include "core/status.h"

namespace tidemill {

VtraceOutput ComputeVtrace(const VtraceInput& in, const VtraceCaps& caps) {
  const size_t steps = in.values.size();
  TM_CHECK(
      in.log_ratio.size() == steps && in.rewards.size() == steps && in.discounts.size() == steps,
      "V-trace needs a ratio, a reward, a discount and a value for every step");
  VtraceOutput out;
  out.vs.resize(steps);
  out.advantages.resize(steps);
  double next_value = in.bootstrap;
  double next_vs = in.bootstrap;
  for (size_t t = steps; t-- > 0;) {
    const double ratio = std::exp(in.log_ratio[t]);
    const double target = in.rewards[t] + in.discounts[t] * next_value;
    const double delta = std::min(caps.rho_cap, ratio) * (target - in.values[t]);
    out.vs[t] = in.values[t] + delta +
                in.discounts[t] * std::min(caps.c_cap, ratio) * (next_vs - next_value);
    out.advantages[t] = std::min(caps.pg_rho_cap, ratio) *
                        (in.rewards[t] + in.discounts[t] * next_vs - in.values[t]);
    next_value = in.values[t];
    next_vs = out.vs[t];
  }
  return out;
}

}  // namespace tidemill
