#include "model/torch/recompute.h"

#include "model/torch/aten.h"

#include <torch/csrc/autograd/autograd.h>

#include "model/torch/held.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  // `always` asks for a gradient, so that the result does even where x does not (frozen embeddings
  // below trained adapters).
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& always,
                        const std::shared_ptr<const ForwardPart>& part) {
    static_cast<void>(always);
    ctx->save_for_backward({x});
    Hold(ctx, "part", part);
    return (*part)(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto part = TakeHeld<ForwardPart>(ctx, "part");
    const Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    Tensor y;
    {
      const at::AutoGradMode on(true);
      y = (*part)(x);
    }
    torch::autograd::backward({y}, {grads[0]});
    return {x.grad(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Recomputed(const Tensor& x, ForwardPart part) {
  if (!at::GradMode::is_enabled()) return part(x);
  const Tensor always = at::empty({0}, x.options()).set_requires_grad(true);
  return RecomputeFunction::apply(x, always, std::make_shared<const ForwardPart>(std::move(part)));
}

}  // namespace tidemill
