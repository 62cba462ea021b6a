#include "learner/gradient_watch.h"

#include <algorithm>

namespace tidemill {

double GradientWatch::median() const {
  if (norms_.empty()) return 0;
  std::vector<double> sorted(norms_.begin(), norms_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

bool GradientWatch::Add(double norm) {
  const bool spike = norms_.size() >= kEnough && norm > factor_ * median();
  norms_.push_back(norm);
  if (norms_.size() > kWindow) norms_.pop_front();
  return spike;
}

}  // namespace tidemill
