// A linear layer, with the adapter that may ride on it.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/torch/model.h"

namespace tidemill {

// Casts (a differentiable copy) where the matrices are multiplied in another type than they are
// kept in.
at::Tensor As(const at::Tensor& tensor, at::ScalarType type);

// scale (x Aᵀ) Bᵀ in the type of x, of an adapter alone.
at::Tensor LowRankProduct(const at::Tensor& x, const LinearTensors& adapter);

// In the type of x.
at::Tensor Linear(const at::Tensor& x, const LinearTensors& linear);

}  // namespace tidemill
