#include "engine/torch/adapter_sums.h"

#include <algorithm>

namespace tidemill {
namespace {

void MultiplyInto(const CpuKernels& kernels, const float* x, long ldx, const PackedMatrix& matrix,
                  long rows, float* out) {
  kernels.matmul({.a = x,
                  .packed = matrix.values.data(),
                  .bias = nullptr,
                  .c = out,
                  .rows = rows,
                  .k = matrix.k,
                  .panels = matrix.panels,
                  .lda = ldx,
                  .ldc = matrix.panels * kernels.panel,
                  .mode = MatmulMode::kStore});
}

}  // namespace

void AdapterSums::Clear() {
  rows_.clear();
  any_ = false;
}

void AdapterSums::AddRows(const PackedAdapter* adapter, size_t count) {
  rows_.insert(rows_.end(), count, adapter);
  any_ = any_ || adapter != nullptr;
}

const float* AdapterSums::Added(const CpuKernels& kernels, const AdaptedProduct& f,
                                const PackedMatrix& base) {
  if (!any_) return nullptr;
  const long width = base.panels * kernels.panel;
  added_.Reserve(static_cast<size_t>(f.rows * width));
  bool adds = false;
  for (long r = 0, count = 0; r < f.rows; r += count) {
    const PackedAdapter* const* row = rows_.data() + f.first + r;
    count = 1;
    while (r + count < f.rows && row[count] == *row) ++count;
    float* to = added_.data() + r * width;
    const PackedLowRank* of = *row != nullptr ? &(*row)->Of(f.layer, f.product) : nullptr;
    if (of == nullptr || of->a.panels == 0) {
      std::fill_n(to, count * width, 0.0f);
      continue;
    }
    adds = true;
    const long low = of->a.panels * kernels.panel;
    low_.Reserve(static_cast<size_t>(count * low));
    MultiplyInto(kernels, f.x + r * f.ldx, f.ldx, of->a, count, low_.data());
    MultiplyInto(kernels, low_.data(), low, of->b, count, to);
  }
  return adds ? added_.data() : nullptr;
}

}  // namespace tidemill
