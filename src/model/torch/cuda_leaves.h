// The parameters of a model that is trained on a GPU. They lie in one block of float32, their
// gradients in another, and a third is what matrices are multiplied with, in bfloat16; all three
// laid out as a GPU engine keeps its weights (model/cuda/weight_layout.h). So layers that read the
// same input are one product, products add to gradients where they lie, and casting and publishing
// are one operation each. Only in builds with CUDA.
//
// In the narrow form there is no float32: the leaves are the bfloat16 block itself, gradients are
// bfloat16 too, and what the leaves lack to float32 is with the optimizer (learner/torch/adamw.h).
// A sum is taken in float32 and rounded when it is added to a gradient: once for each microbatch
// and product.
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
  at::Tensor weight_gradient, bias_gradient;  // as the block of gradients
};

struct CudaLeaves {
  struct Layer {
    CudaProduct qkv, o, gate_up, down;
  };
  at::Tensor values;     // float32; undefined in the narrow form
  at::Tensor gradients;  // float32, or bfloat16 in the narrow form
  at::Tensor low;        // bfloat16; `values` as they were at the last Refresh
  std::vector<Layer> layers;
  CudaProduct embed, head;  // the same where they are tied
  NamedTensors parameters;  // leaves: parts of `values` or else of `low`, with parts of `gradients`

  bool narrow() const { return !values.defined(); }
  void Refresh() const;
};

// With the values of `tensors`, all the tensors of a model, in whatever type on one GPU.
std::shared_ptr<const CudaLeaves> MakeCudaLeaves(const ModelConfig& config,
                                                 const NamedTensors& tensors, bool narrow);

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
// The √Σ g² of a block of gradients, in float32 whatever its type.
double GradientNorm(const at::Tensor& gradients);

}  // namespace tidemill
