// The training pass on a GPU in bfloat16: the same functions as model.h's, made of few large
// operations. Only in builds with CUDA; model.h's functions call these where they apply.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/moment_codes.h"
#include "model/torch/model.h"

namespace tidemill {

// Whether CudaForwardHidden can stand in for ForwardHidden: tensors on a GPU, matrices multiplied
// in bfloat16, and shapes its kernels know.
bool CudaForwardApplies(const ModelConfig& config, const ModelTensorsView& view,
                        at::ScalarType compute);
// The last of these alone.
bool CudaKernelsFit(const ModelConfig& config);
at::Tensor CudaForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                             const PackedBatch& batch, bool recompute);

// As TokenLogprobs, for bfloat16 hidden states on a GPU.
TokenScores CudaTokenLogprobs(const ModelTensorsView& view, const at::Tensor& hidden,
                              const at::Tensor& targets, double temperature, bool recompute,
                              std::shared_ptr<const DrawSupports> supports);

// The √Σ g² of all, in one wait for the device.
double CudaGradNorm(const std::vector<at::Tensor>& gradients);

struct CudaAdamW {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};
// All float32 on one GPU, contiguous.
void CudaAdamWStep(const CudaAdamW& update, const at::Tensor& grad, at::Tensor& p, at::Tensor& m,
                   at::Tensor& v);

// Of a parameter and its gradient in bfloat16, with codes and scales (model/moment_codes.h).
struct CudaSplitMoments {
  at::Tensor rest, first, first_scales, second, second_scales;
};
void CudaSplitAdamWStep(const AdamWUpdate& update, uint64_t step, const at::Tensor& grad,
                        at::Tensor& p, const CudaSplitMoments& moments);

}  // namespace tidemill
