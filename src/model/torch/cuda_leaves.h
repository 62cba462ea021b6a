// The parameters of a model that is trained on a GPU. They lie in one block of float32, their
// gradients in another, and a third is what matrices are multiplied with, in bfloat16; all three
// laid out as a GPU engine keeps its weights (model/cuda/weight_layout.h). So layers that read the
// same input are one product, products add to gradients where they lie, and casting and publishing
// are one operation each. Only in builds with CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "model/model_config.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// One or several layers that read the same input. Undefined biases: without.
struct CudaProduct {
  at::Tensor weight, bias;                    // bfloat16
  at::Tensor weight_gradient, bias_gradient;  // float32
};

struct CudaLeaves {
  struct Layer {
    CudaProduct qkv, o, gate_up, down;
  };
  at::Tensor values, gradients;  // float32
  at::Tensor low;                // bfloat16; `values` as they were at the last Refresh
  std::vector<Layer> layers;
  CudaProduct embed, head;  // the same where they are tied
  NamedTensors parameters;  // leaves: parts of `values`, with parts of `gradients`

  void Refresh() const;
};

// With the values of `tensors`, all the tensors of a model, in whatever type on one GPU.
std::shared_ptr<const CudaLeaves> MakeCudaLeaves(const ModelConfig& config,
                                                 const NamedTensors& tensors);

// Copies of all tensors in `type`, in one block that an engine takes over by one copy. Returns when
// they are there.
NamedTensors CopyLeaves(const ModelConfig& config, const CudaLeaves& leaves, at::ScalarType type);

// y = x Wᵀ + b. The gradient of x goes on as always; those of the product are added in their place.
// `most`: as ModelTensorsView's product_most.
at::Tensor MultiplyLeaves(const at::Tensor& x, std::shared_ptr<const CudaProduct> product,
                          double most = 0);
// Rows of the embedding; `leaf` is its parameter, and asks for the gradient.
at::Tensor EmbedLeaves(const at::Tensor& leaf, const at::Tensor& tokens,
                       std::shared_ptr<const CudaProduct> embed);
// gradient += aᵀ b, of bfloat16 in float32; with a bound, some rows of the gradient at a time.
void AddProduct(const at::Tensor& a, const at::Tensor& b, at::Tensor gradient, double most = 0);
// a b, with a bound some rows at a time.
at::Tensor ProductInPieces(const at::Tensor& a, const at::Tensor& b, double most);

}  // namespace tidemill
