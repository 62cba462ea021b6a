#include "model/torch/experts.h"

#include "model/torch/aten.h"

#include "model/torch/linear.h"

namespace tidemill {
namespace {

struct Routing {
  at::Tensor chosen;   // int64 [n, chosen]
  at::Tensor weights;  // float32 [n, chosen]
};

// Equally likely experts are taken in their order.
Routing Route(const ExpertPlan& plan, const ExpertTensors& tensors, const ExpertInput& input,
              RouterNotes* notes) {
  const at::Tensor& router = tensors.router;
  const at::Tensor p = at::softmax(at::linear(As(input.x, at::kFloat), As(router, at::kFloat)), -1);
  const at::Tensor scores =
      tensors.bias.defined() ? p.detach() + As(tensors.bias.detach(), at::kFloat) : p.detach();
  const at::Tensor own = std::get<1>(at::sort(scores, /*stable=*/true, 1, /*descending=*/true))
                             .narrow(1, 0, plan.chosen);
  Routing routing;
  routing.chosen = own;
  if (input.given.defined() && input.replay) {
    routing.chosen = at::where(input.given.ge(0), input.given, own).contiguous();
  }
  routing.weights = p.gather(1, routing.chosen);
  if (plan.normalized) routing.weights = routing.weights / routing.weights.sum(1, true);
  if (notes == nullptr) return routing;
  notes->probabilities.push_back(p);
  notes->chosen.push_back(routing.chosen);
  if (input.given.defined()) {
    const at::Tensor known = input.given.ge(0);
    const at::Tensor same = input.given.unsqueeze(2).eq(own.unsqueeze(1)).any(2).logical_and(known);
    notes->given += known.sum().item<int64_t>();
    notes->differing += known.sum().item<int64_t>() - same.sum().item<int64_t>();
  }
  return routing;
}

LinearTensors Plain(const at::Tensor& weight) {
  return {.weight = weight, .bias = {}, .lora_a = {}, .lora_b = {}};
}

// With the adapter's part of it, where there is one.
at::Tensor OneExpert(Activation activation, const ExpertPlan& plan, const ExpertTensors& tensors,
                     int64_t expert, const at::Tensor& x) {
  const ExpertTensors::Expert& own = tensors.experts[static_cast<size_t>(expert)];
  at::Tensor gate = Linear(x, Plain(own.gate)), up = Linear(x, Plain(own.up));
  if (tensors.gate_up.a.defined()) {
    const LinearTensors low = tensors.gate_up.Of(expert, plan.count);
    const at::Tensor added = LowRankProduct(x, low);
    gate = gate + added.narrow(1, 0, plan.width);
    up = up + added.narrow(1, plan.width, plan.width);
  }
  const at::Tensor act =
      (activation == Activation::kSilu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
  const at::Tensor out = Linear(act, Plain(own.down));
  if (!tensors.down.a.defined()) return out;
  return out + LowRankProduct(act, tensors.down.Of(expert, plan.count));
}

}  // namespace

LinearTensors ExpertTensors::LowRank::Of(int64_t expert, int64_t experts) const {
  const int64_t rank = a.size(0) / experts;
  return {.weight = {},
          .bias = {},
          .lora_a = a.narrow(0, expert * rank, rank),
          .lora_b = b.view({b.size(0), rank, experts}).select(2, expert),
          .lora_scale = scale};
}

at::Tensor RunExperts(Activation activation, const ExpertPlan& plan, const ExpertTensors& tensors,
                      const ExpertInput& input, RouterNotes* notes) {
  const at::Tensor& x = input.x;
  const Routing routing = Route(plan, tensors, input, notes);
  at::Tensor out = at::zeros_like(x);
  for (int64_t e = 0; e < plan.count; ++e) {
    const at::Tensor places = routing.chosen.eq(e).nonzero();  // [m, 2]: row, choice
    if (places.size(0) == 0) continue;
    const at::Tensor rows = places.select(1, 0), choices = places.select(1, 1);
    const at::Tensor y = OneExpert(activation, plan, tensors, e, x.index_select(0, rows));
    const at::Tensor weights = routing.weights.index({rows, choices}).unsqueeze(1);
    out = out.index_add(0, rows, y * As(weights, x.scalar_type()));
  }
  return out;
}

at::Tensor BalanceLoss(const RouterNotes& notes) {
  if (notes.probabilities.empty()) return at::zeros({}, at::kFloat);
  const at::Tensor p = at::cat(notes.probabilities), chosen = at::cat(notes.chosen);
  const at::Tensor counts =
      at::bincount(chosen.flatten(), {}, p.size(1)).to(at::kFloat) / p.size(0);
  return (counts * p.mean(0)).sum() * p.size(1);
}

}  // namespace tidemill
