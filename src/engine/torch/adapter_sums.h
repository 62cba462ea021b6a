// The adapters' part of a CPU step's products: (x Aᵀ) Bᵀ for each group of rows that have one.
#pragma once

#include <span>
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

// A product of one expert of a layer: gate and up, or down.
struct ExpertProduct {
  bool down;
  long layer, expert;
  std::span<const long> picked;
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
  // The same of an expert's product, whose rows are picked out of the step: row i of x is row
  // picked[i].
  const float* AddedOfExpert(const CpuKernels& kernels, const ExpertProduct& product,
                             const PackedMatrix& base);

 private:
  // `of` says what a row's adapter has for the product; null: nothing.
  template <typename Row, typename Of>
  const float* Sum(const CpuKernels& kernels, const float* x, long ldx, long rows,
                   const PackedMatrix& base, const Row& adapter_of, const Of& of);

  std::vector<const PackedAdapter*> rows_;
  bool any_ = false;
  FloatBuffer low_, added_;
};

}  // namespace tidemill
