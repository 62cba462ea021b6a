#include "policy/torch/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "policy/torch/aten.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct KeptPart : torch::CustomClassHolder {
  explicit KeptPart(ForwardPart given) : part(std::move(given)) {}
  const ForwardPart part;
};

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  // `always` asks for a gradient, so that the result does even where x does not (frozen embeddings
  // below trained adapters).
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& always,
                        const c10::intrusive_ptr<KeptPart>& kept) {
    static_cast<void>(always);
    ctx->save_for_backward({x});
    ctx->saved_data["part"] = c10::IValue::make_capsule(kept);
    return kept->part(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptPart>(ctx->saved_data["part"].toCapsule());
    const Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    Tensor y;
    {
      const at::AutoGradMode on(true);
      y = kept->part(x);
    }
    torch::autograd::backward({y}, {grads[0]});
    return {x.grad(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Recomputed(const Tensor& x, ForwardPart part) {
  if (!at::GradMode::is_enabled()) return part(x);
  const Tensor always = at::empty({0}, x.options()).set_requires_grad(true);
  return RecomputeFunction::apply(x, always, c10::make_intrusive<KeptPart>(std::move(part)));
}

}  // namespace tidemill
