#include "engine/cuda/adapter_products.h"

#include <algorithm>

namespace tidemill {
namespace {

// Small matrices: a few layers tell which product is the fastest, and a start must not take longer
// for them than for the large ones.
constexpr size_t kTunedLayers = 8;

}  // namespace

Status AdapterProducts::Allocate(int rows, int64_t layers) {
  if (layout_.empty()) return Ok();
  layers_ = static_cast<size_t>(layers);
  int64_t rank = 0;
  for (const AdapterLayout::Product& product : layout_.products) {
    rank = std::max(rank, product.rank);
  }
  const size_t bytes = layout_.numbers * CudaTypeBytes(type_);
  TM_RETURN_IF_ERROR(block_.Allocate(bytes, "an adapter"));
  TM_CUDA(cudaMemset(block_.as(), 0, bytes));
  return low_.Allocate(static_cast<size_t>(rows * rank) * CudaTypeBytes(type_), "rows");
}

void AdapterProducts::Take(const void* block, CudaStream stream) {
  if (layout_.empty()) return;
  CudaCopyBlock(block, block_.as(), layout_.numbers * CudaTypeBytes(type_), stream);
}

GemmShape AdapterProducts::Down(const AdapterLayout::Product& product, const Rows& rows) const {
  return {.type = type_,
          .wide = false,
          .accumulate = false,
          .bias = false,
          .rows = rows.count,
          .n = static_cast<int>(product.rank),
          .k = static_cast<int>(product.in),
          .stride = static_cast<int>(product.rank)};
}

GemmShape AdapterProducts::Up(const AdapterLayout::Product& product, const Rows& rows) const {
  return {.type = type_,
          .wide = rows.wide,
          .accumulate = true,
          .bias = false,
          .rows = rows.count,
          .n = static_cast<int>(product.out),
          .k = static_cast<int>(product.rank),
          .stride = static_cast<int>(product.out)};
}

Status AdapterProducts::Add(CudaGemm& gemm, LayerProduct product, size_t layer, const Rows& rows) {
  const AdapterLayout::Product& p = layout_.Of(product);
  if (p.rank == 0) return Ok();
  TM_RETURN_IF_ERROR(gemm.Run(Down(p, rows), rows.x, At(layer, p.a), nullptr, low_.as()));
  return gemm.Run(Up(p, rows), low_.as(), At(layer, p.b), nullptr, rows.out);
}

Status AdapterProducts::Tune(CudaGemm& gemm, LayerProduct product, const Rows& rows) {
  const AdapterLayout::Product& p = layout_.Of(product);
  if (p.rank == 0) return Ok();
  std::vector<const void*> a, b;
  for (size_t layer = 0; layer < std::min(layers_, kTunedLayers); ++layer) {
    a.push_back(At(layer, p.a));
    b.push_back(At(layer, p.b));
  }
  TM_RETURN_IF_ERROR(gemm.Tune(Down(p, rows), rows.x, a, nullptr, low_.as()));
  return gemm.Tune(Up(p, rows), low_.as(), b, nullptr, rows.out);
}

}  // namespace tidemill
