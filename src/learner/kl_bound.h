// Keeps the policy near the reference: above a bound on the KL divergence the weight of the KL term
// doubles with every step, below half of the bound it falls back to what was configured.
#pragma once

#include <algorithm>

namespace tidemill {

class KlBound {
 public:
  // `most`: nats per token; 0: no bound.
  KlBound(double most, double weight) : most_(most), weight_(weight) {}

  // The weight for the next step, after one with the weight `now` that came to `kl`.
  double Next(double now, double kl) const {
    if (most_ <= 0) return now;
    if (kl > most_) return std::min(2 * now, kFactorMax * weight_);
    return kl < most_ / 2 ? std::max(now / 2, weight_) : now;
  }

 private:
  static constexpr double kFactorMax = 1024;
  double most_, weight_;
};

}  // namespace tidemill
