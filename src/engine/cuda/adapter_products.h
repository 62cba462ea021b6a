// An adapter's part of a decoder's products: out += (x Aᵀ) Bᵀ, two small products of which
// steps and graphs have the same whatever adapter lies in the memory.
#pragma once

#include <span>
#include <vector>

#include "engine/cuda/gemm.h"
#include "model/cuda/adapter_layout.h"
#include "model/cuda/check.h"

namespace tidemill {

// Not thread-safe.
class AdapterProducts {
 public:
  AdapterProducts(const AdapterLayout& layout, CudaType type) : layout_(layout), type_(type) {}

  // For steps of at most `rows` rows and `layers` layers. Without a rank nothing is allocated, and
  // the functions below do nothing. kFull: the GPU has not enough memory.
  Status Allocate(int rows, int64_t layers);

  const AdapterLayout& layout() const { return layout_; }
  // Takes a block of the same layout from device memory, on the stream.
  void Take(const void* block, CudaStream stream);

  // `wide`: out is float32.
  struct Rows {
    int count = 0;
    const void* x = nullptr;
    void* out = nullptr;
    bool wide = false;
  };
  Status Add(CudaGemm& gemm, LayerProduct product, size_t layer, const Rows& rows);
  // Finds the fastest of both products. Writes to out.
  Status Tune(CudaGemm& gemm, LayerProduct product, const Rows& rows);

 private:
  GemmShape Down(const AdapterLayout::Product& product, const Rows& rows) const;
  GemmShape Up(const AdapterLayout::Product& product, const Rows& rows) const;
  const void* At(size_t layer, size_t first) const {
    return block_.as<char>() + (layer * layout_.layer_numbers + first) * CudaTypeBytes(type_);
  }

  const AdapterLayout layout_;
  const CudaType type_;
  size_t layers_ = 0;
  CudaBuffer block_;
  CudaBuffer low_;  // x Aᵀ
};

}  // namespace tidemill
