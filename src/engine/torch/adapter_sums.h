// The adapters' part of a CPU step's products: (x Aᵀ) Bᵀ for each group of rows that have one.
#pragma once

#include <vector>

#include "engine/torch/cpu_weights.h"

namespace tidemill {

// A product of rows [first, first + rows) of a step in one layer: x and its stride.
struct AdaptedProduct {
  LayerProduct product;
  long layer;
  long first, rows;
  const float* x;
  long ldx;
};

// Not thread-safe; one for each thread.
class AdapterSums {
 public:
  // The rows of a step, one after the other; null: they have no adapter.
  void Clear();
  void AddRows(const PackedAdapter* adapter, size_t count);

  // What the product with `base` begins from (MatmulArgs::start), until the next call; null:
  // nothing is added.
  const float* Added(const CpuKernels& kernels, const AdaptedProduct& product,
                     const PackedMatrix& base);

 private:
  std::vector<const PackedAdapter*> rows_;
  bool any_ = false;
  FloatBuffer low_, added_;
};

}  // namespace tidemill
