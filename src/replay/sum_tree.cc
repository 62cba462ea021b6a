#include "replay/sum_tree.h"

#include <cmath>

#include "core/status.h"

namespace tidemill {

void SumTree::Grow(size_t least) {
  size_t leaves = leaves_ == 0 ? 16 : leaves_;
  while (leaves < least) leaves *= 2;
  std::vector<double> nodes(2 * leaves, 0.0);
  for (size_t i = 0; i < leaves_; ++i) nodes[leaves + i] = nodes_[leaves_ + i];
  for (size_t i = leaves - 1; i > 0; --i) nodes[i] = nodes[2 * i] + nodes[2 * i + 1];
  leaves_ = leaves;
  nodes_ = std::move(nodes);
}

void SumTree::Set(size_t index, double weight) {
  TM_CHECK(std::isfinite(weight) && weight >= 0, "a weight is a finite number of at least 0");
  if (index >= leaves_) Grow(index + 1);
  size_t node = leaves_ + index;
  nodes_[node] = weight;
  // Sums are made anew from both children, so that rounding errors do not gather.
  for (node /= 2; node > 0; node /= 2) nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
}

double SumTree::Get(size_t index) const {
  return index < leaves_ ? nodes_[leaves_ + index] : 0.0;
}

size_t SumTree::Find(double place) const {
  TM_CHECK(total() > 0, "there is nothing to find");
  size_t node = 1;
  while (node < leaves_) {
    const double left = nodes_[2 * node];
    const double right = nodes_[2 * node + 1];
    // Rounding can leave `place` at the end of the sum: then the last child with a weight is meant.
    if ((place < left || right == 0) && left > 0) {
      node = 2 * node;
    } else {
      place -= left;
      node = 2 * node + 1;
    }
  }
  return node - leaves_;
}

}  // namespace tidemill
