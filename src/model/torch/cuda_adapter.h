// An adapter that is trained on a GPU, above frozen weights in one block of bfloat16
// (model/torch/weight_block.h), which is read where it lies: layers with the same input are one
// product with rows of the block. The adapter's parameters lie in one block of float32, their
// gradients in another, and what matrices are multiplied with in a third, in bfloat16. Only in
// builds with CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "model/cuda/adapter_layout.h"
#include "model/torch/model.h"

namespace tidemill {

// y = x Wᵀ + b + Σ (x Aᵢᵀ) Bᵢᵀ, where the scale is part of B.
struct AdaptedProduct {
  // One layer of it.
  struct Part {
    int64_t first_out = 0;  // its columns of y are as many as B's rows
    int64_t first_low = 0;  // its rows of `a` are as many as B's columns
    double scale = 0;
    at::Tensor b, b_gradient;  // bfloat16, float32
  };
  at::Tensor weight, bias;   // frozen, bfloat16; an undefined bias: without
  at::Tensor a, a_gradient;  // all Aᵢ one below the other; undefined: no adapter
  std::vector<Part> parts;
};

struct CudaAdapter {
  struct Layer {
    std::array<AdaptedProduct, kLayerProducts> products;
  };
  at::Tensor values, gradients;  // float32: first every A, then every B
  at::Tensor low;                // bfloat16; as `values` were at the last Refresh, B scaled
  int64_t first_b = 0;           // where the first B begins
  bool one_scale = true;         // all parts have the same
  std::vector<Layer> layers;
  NamedTensors parameters;  // leaves: parts of `values`, with parts of `gradients`

  void Refresh() const;
  // Copies of the parameters, parts of one block. Returns when they are there.
  NamedTensors Copies() const;
};

// Null where the base does not lie in one block of bfloat16.
std::shared_ptr<const CudaAdapter> MakeCudaAdapter(const PolicyWeights& weights);

// The gradient of x goes on as always; those of A and B are added in their place.
at::Tensor MultiplyAdapted(const at::Tensor& x, std::shared_ptr<const AdaptedProduct> product);

}  // namespace tidemill
