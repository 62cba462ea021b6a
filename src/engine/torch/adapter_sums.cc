#include "engine/torch/adapter_sums.h"

#include <algorithm>

namespace tidemill {
namespace {

void MultiplyInto(const CpuKernels& kernels, const float* x, long ldx, const PackedMatrix& matrix,
                  long rows, float* out) {
  MultiplyRows(kernels, x, ldx, matrix, rows, out, matrix.panels * kernels.panel,
               MatmulMode::kStore);
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

template <typename Row, typename Of>
const float* AdapterSums::Sum(const CpuKernels& kernels, const float* x, long ldx, long rows,
                              const PackedMatrix& base, const Row& adapter_of, const Of& of) {
  if (!any_) return nullptr;
  const long width = base.panels * kernels.panel;
  added_.Reserve(static_cast<size_t>(rows * width));
  bool adds = false;
  for (long r = 0, count = 0; r < rows; r += count) {
    const PackedAdapter* adapter = adapter_of(r);
    count = 1;
    while (r + count < rows && adapter_of(r + count) == adapter) ++count;
    float* to = added_.data() + r * width;
    const PackedLowRank* low_rank = adapter != nullptr ? of(*adapter) : nullptr;
    if (low_rank == nullptr || low_rank->a.panels == 0) {
      std::fill_n(to, count * width, 0.0f);
      continue;
    }
    adds = true;
    const long low = low_rank->a.panels * kernels.panel;
    low_.Reserve(static_cast<size_t>(count * low));
    MultiplyInto(kernels, x + r * ldx, ldx, low_rank->a, count, low_.data());
    MultiplyInto(kernels, low_.data(), low, low_rank->b, count, to);
  }
  return adds ? added_.data() : nullptr;
}

const float* AdapterSums::Added(const CpuKernels& kernels, const AdaptedProduct& f,
                                const PackedMatrix& base) {
  return Sum(
      kernels, f.x, f.ldx, f.rows, base,
      [&](long r) { return rows_[static_cast<size_t>(f.first + r)]; },
      [&](const PackedAdapter& adapter) { return &adapter.Of(f.layer, f.product); });
}

const float* AdapterSums::AddedOfExpert(const CpuKernels& kernels, const ExpertProduct& f,
                                        const PackedMatrix& base) {
  return Sum(
      kernels, f.x, f.ldx, static_cast<long>(f.picked.size()), base,
      [&](long r) { return rows_[static_cast<size_t>(f.picked[static_cast<size_t>(r)])]; },
      [&](const PackedAdapter& adapter) -> const PackedLowRank* {
        const auto& experts = adapter.experts[static_cast<size_t>(f.layer)];
        if (experts.empty()) return nullptr;
        const PackedAdapter::Expert& one = experts[static_cast<size_t>(f.expert)];
        return f.down ? &one.down : &one.gate_up;
      });
}

}  // namespace tidemill
