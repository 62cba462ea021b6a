// The training pass on a GPU in bfloat16: the same functions as model.h's, made of few large
// operations. Only in builds with CUDA; model.h's functions call these where they apply.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/torch/model.h"

namespace tidemill {

// Whether CudaForwardHidden can stand in for ForwardHidden: tensors on a GPU, matrices multiplied
// in bfloat16, and shapes its kernels know.
bool CudaForwardApplies(const ModelConfig& config, const ModelTensorsView& view,
                        at::ScalarType compute);
at::Tensor CudaForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                             const PackedBatch& batch, bool recompute);

// As TokenLogprobs, for bfloat16 hidden states on a GPU.
TokenScores CudaTokenLogprobs(const ModelTensorsView& view, const at::Tensor& hidden,
                              const at::Tensor& targets, double temperature, bool recompute);

// The √Σ g² of all, in one wait for the device.
double CudaGradNorm(const std::vector<at::Tensor>& gradients);

struct CudaAdamW {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};
// All float32 on one GPU, contiguous.
void CudaAdamWStep(const CudaAdamW& update, const at::Tensor& grad, at::Tensor& p, at::Tensor& m,
                   at::Tensor& v);

}  // namespace tidemill
