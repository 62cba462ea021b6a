#include "model/torch/gpu_products.h"

#include "model/torch/aten.h"

#include "model/torch/learner_share.h"

namespace tidemill {

using at::Tensor;

Tensor LinearProduct(const Tensor& x, const Tensor& weight, const Tensor& bias) {
#ifdef TIDEMILL_CUDA
  TellProductsOfShare();
#endif
  return at::linear(x, weight,
                    bias.defined() ? c10::optional<Tensor>(bias) : c10::optional<Tensor>());
}

#ifdef TIDEMILL_CUDA

Tensor LowProduct(const Tensor& a, const Tensor& b) {
  TellProductsOfShare();
  return at::mm(a, b);
}

Tensor WideProduct(const Tensor& a, const Tensor& b) {
  TellProductsOfShare();
  return at::mm(a, b, at::kFloat);
}

void LowProductInto(const Tensor& a, const Tensor& b, Tensor out) {
  TellProductsOfShare();
  at::mm_out(out, a, b);
}

void AddLowProduct(const Tensor& a, const Tensor& b, Tensor out) {
  TellProductsOfShare();
  out.addmm_(a, b);
}

void AddProduct(const Tensor& a, const Tensor& b, Tensor gradient) {
  TellProductsOfShare();
  if (gradient.scalar_type() == at::kFloat) {
    at::addmm_out(gradient, gradient, a.t(), b, at::kFloat);
    return;
  }
  // Where a product is computed in parts, they are added up in float32 as well.
  static const bool once = (at::globalContext().setAllowBF16ReductionCuBLAS(false), true);
  static_cast<void>(once);
  at::addmm_out(gradient, gradient, a.t(), b);
}

#endif

}  // namespace tidemill
