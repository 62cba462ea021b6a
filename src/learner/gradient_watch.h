// Remembers the sizes of the last gradients and says when one stands out.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace tidemill {

class GradientWatch {
 public:
  static constexpr size_t kWindow = 64;  // gradients remembered
  static constexpr size_t kEnough = 8;   // before anything is called a spike

  explicit GradientWatch(double factor) : factor_(factor) {}

  // True: `norm` is more than `factor` times the median of the last ones.
  bool Add(double norm);
  // 0 before there is one.
  double median() const;

  // For checkpoints.
  std::vector<double> Save() const { return {norms_.begin(), norms_.end()}; }
  void Restore(const std::vector<double>& norms) { norms_.assign(norms.begin(), norms.end()); }

 private:
  double factor_;
  std::deque<double> norms_;
};

}  // namespace tidemill
