// Matrix products of a pass in bfloat16. Everything the GPU's path multiplies through libtorch goes
// through these: libtorch 1.13 on a CPU must not multiply bfloat16 itself (ProductType in
// forward.cc), so tests that run that path on the CPU (tests/cuda_host) put another file in place
// of gpu_products.cc.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemill {

// x Wᵀ + b in the type of x, whatever that is. Differentiable. An undefined bias: without.
at::Tensor LinearProduct(const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias = at::Tensor());

#ifdef TIDEMILL_CUDA
// Not differentiable; a and b are bfloat16 matrices, sums are float32.
at::Tensor LowProduct(const at::Tensor& a, const at::Tensor& b);   // a b, rounded to bfloat16
at::Tensor WideProduct(const at::Tensor& a, const at::Tensor& b);  // a b in float32
void LowProductInto(const at::Tensor& a, const at::Tensor& b, at::Tensor out);
// out += a b, rounded to bfloat16; out may be some columns of a matrix.
void AddLowProduct(const at::Tensor& a, const at::Tensor& b, at::Tensor out);
// gradient += aᵀ b, in float32; rounded once where the gradient is bfloat16.
void AddProduct(const at::Tensor& a, const at::Tensor& b, at::Tensor gradient);
#endif

}  // namespace tidemill
