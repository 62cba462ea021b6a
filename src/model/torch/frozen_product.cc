#include "model/torch/frozen_product.h"

#include "model/torch/aten.h"

#include <torch/csrc/autograd/custom_function.h>

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class FrozenFunction : public torch::autograd::Function<FrozenFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& bias) {
    ctx->save_for_backward({weight});
    c10::optional<Tensor> wide;
    if (bias.has_value()) wide = bias->to(x.scalar_type());
    return at::linear(x, weight.to(x.scalar_type()), wide);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor weight = ctx->get_saved_variables()[0];
    return {at::matmul(grads[0], weight.to(grads[0].scalar_type())), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor FrozenProduct(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return FrozenFunction::apply(
      x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::optional<Tensor>());
}

}  // namespace tidemill
