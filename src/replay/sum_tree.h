// Weights in an array whose sums are kept in a binary tree above them: changing one and finding the
// one at a given place of the running sum both take as many steps as the tree is high.
#pragma once

#include <cstddef>
#include <vector>

namespace tidemill {

class SumTree {
 public:
  // Weights are finite and not negative. Grows as needed; new ones are 0.
  void Set(size_t index, double weight);
  double Get(size_t index) const;
  double total() const { return nodes_.empty() ? 0.0 : nodes_[1]; }
  size_t capacity() const { return leaves_; }

  // The index whose share of the running sum `place` falls into. Never one of weight 0 while the
  // total is above 0, whatever rounding does. `place` is in [0, total()), the total above 0.
  size_t Find(double place) const;

 private:
  void Grow(size_t least);

  size_t leaves_ = 0;          // a power of two, or none
  std::vector<double> nodes_;  // nodes_[1] is the root, nodes_[leaves_ + i] the weight i
};

}  // namespace tidemill
