#ifdef TIDEMILL_CUDA

#include "model/torch/cuda_train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/cuda/train_kernels.h"
#include "model/families/family_spec.h"
#include "model/torch/cuda_adapter.h"
#include "model/torch/cuda_attention.h"
#include "model/torch/cuda_leaves.h"
#include "model/torch/device.h"
#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/linear.h"
#include "model/torch/recompute.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Norms multiply by offset + weight.
struct NormForm {
  double eps = 0, offset = 0;
};

// {norm(x)}, or where it `adds` {x + more, norm of it}. (No input may be undefined.)
class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& more,
                               const Tensor& weight, const NormForm& form, bool adds) {
    const double eps = form.eps;
    const Tensor rows = x.contiguous();
    Tensor w = As(weight.detach(), at::kFloat).contiguous();
    if (form.offset != 0) w = w + form.offset;
    const TrainNormShape shape = ShapeOf(rows, eps);
    const Tensor added = adds ? more.contiguous() : Tensor();
    Tensor sum = adds ? at::empty_like(rows) : rows;
    Tensor y = at::empty_like(rows);
    Tensor rstd = at::empty({shape.rows}, rows.options().dtype(at::kFloat));
    TrainNormForward(shape,
                     {.x = rows.data_ptr(),
                      .more = adds ? added.data_ptr() : nullptr,
                      .sum = adds ? sum.data_ptr() : nullptr},
                     w.data_ptr<float>(), y.data_ptr(), rstd.data_ptr<float>(), CurrentStream());
    ctx->save_for_backward({sum, w, rstd});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["gains"] = weight.requires_grad();
    ctx->saved_data["bf16"] = weight.scalar_type() == at::kBFloat16;
    ctx->saved_data["adds"] = adds;
    if (adds) return {sum, y};
    return {y};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const bool adds = ctx->saved_data["adds"].toBool();
    const Tensor& sum = saved[0];
    const Tensor dy = grads.back().contiguous();
    const Tensor dsum = adds && grads[0].defined() ? grads[0].contiguous() : Tensor();
    const TrainNormShape shape = ShapeOf(sum, ctx->saved_data["eps"].toDouble());
    Tensor dx = at::empty_like(sum);
    Tensor parts;
    if (ctx->saved_data["gains"].toBool()) {
      parts = at::empty({TrainNormParts(shape.rows), shape.width}, saved[1].options());
    }
    TrainNormBackward(shape, sum.data_ptr(), saved[1].data_ptr<float>(), saved[2].data_ptr<float>(),
                      {.dy = dy.data_ptr(),
                       .dsum = dsum.defined() ? dsum.data_ptr() : nullptr,
                       .dx = dx.data_ptr(),
                       .dw_parts = parts.defined() ? parts.data_ptr<float>() : nullptr},
                      CurrentStream());
    Tensor dw = parts.defined() ? parts.sum(0) : Tensor();
    if (dw.defined() && ctx->saved_data["bf16"].toBool()) dw = dw.to(at::kBFloat16);
    return {dx, adds ? dx : Tensor(), dw, Tensor(), Tensor()};
  }

 private:
  static TrainNormShape ShapeOf(const Tensor& rows, double eps) {
    return {rows.numel() / rows.size(-1), static_cast<int>(rows.size(-1)), static_cast<float>(eps)};
  }
};

class GateFunction : public torch::autograd::Function<GateFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up, Activation activation) {
    const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
    Tensor act = at::empty({rows, width}, gate_up.options());
    TrainGateForward(activation, rows, static_cast<int>(width), gate_up.data_ptr(), act.data_ptr(),
                     CurrentStream());
    ctx->save_for_backward({gate_up});
    ctx->saved_data["silu"] = activation == Activation::kSilu;
    return act;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dact = grads[0].contiguous();
    Tensor dgate_up = at::empty_like(saved[0]);
    const bool silu = ctx->saved_data["silu"].toBool();
    TrainGateBackward(silu ? Activation::kSilu : Activation::kGeluTanh, dact.size(0),
                      static_cast<int>(dact.size(1)), saved[0].data_ptr(), dact.data_ptr(),
                      dgate_up.data_ptr(), CurrentStream());
    return {dgate_up, Tensor()};
  }
};

Tensor Norm(const Tensor& x, const Tensor& weight, const NormForm& form) {
  return NormFunction::apply(x, x, weight, form, false)[0];
}

// The rows as they go from layer to layer: what they are is `sum` + `more`, where that is defined.
struct Rows {
  Tensor sum, more;
};
struct NormedRows {
  Tensor sum, normed;
};
// Without a weight there is no norm.
NormedRows AddAndNorm(const Rows& rows, const Tensor& weight, const NormForm& form) {
  if (!weight.defined()) {
    const Tensor sum = rows.more.defined() ? rows.sum + rows.more : rows.sum;
    return {sum, sum};
  }
  if (!rows.more.defined()) return {rows.sum, Norm(rows.sum, weight, form)};
  const variable_list out = NormFunction::apply(rows.sum, rows.more, weight, form, true);
  return {out[0], out[1]};
}

// Layers that read the same input as one product, unless adapters ride on them.
Tensor Joined(const Tensor& x, const std::vector<const LinearTensors*>& parts) {
  const bool plain = std::none_of(parts.begin(), parts.end(),
                                  [](const LinearTensors* part) { return part->lora_a.defined(); });
  std::vector<Tensor> pieces, biases;
  for (const LinearTensors* part : parts) {
    pieces.push_back(plain ? As(part->weight, x.scalar_type()) : Linear(x, *part));
    if (part->bias.defined()) biases.push_back(As(part->bias, x.scalar_type()));
  }
  if (!plain) return at::cat(pieces, 1);
  return LinearProduct(x, at::cat(pieces), biases.empty() ? Tensor() : at::cat(biases));
}

// The four products of a layer: of the leaves' blocks, or of an adapter's and the frozen one below
// it, where there are such, else of its tensors.
struct LayerProducts {
  const LayerTensors& tensors;
  std::shared_ptr<const CudaLeaves::Layer> leaves;    // or null
  std::shared_ptr<const CudaAdapter::Layer> adapter;  // or null
  double most = 0;  // operations of one product of the leaves; 0: no bound

  Tensor Qkv(const Tensor& x) const {
    if (leaves != nullptr) return MultiplyLeaves(x, {leaves, &leaves->qkv}, most);
    if (adapter != nullptr) return Adapted(x, LayerProduct::kQkv);
    return Joined(x, {&tensors.q, &tensors.k, &tensors.v});
  }
  Tensor O(const Tensor& x) const {
    if (leaves != nullptr) return MultiplyLeaves(x, {leaves, &leaves->o}, most);
    if (adapter != nullptr) return Adapted(x, LayerProduct::kO);
    return Linear(x, tensors.o);
  }
  Tensor GateUp(const Tensor& x) const {
    if (leaves != nullptr) return MultiplyLeaves(x, {leaves, &leaves->gate_up}, most);
    if (adapter != nullptr) return Adapted(x, LayerProduct::kGateUp);
    return Joined(x, {&tensors.gate, &tensors.up});
  }
  Tensor Down(const Tensor& x) const {
    if (leaves != nullptr) return MultiplyLeaves(x, {leaves, &leaves->down}, most);
    if (adapter != nullptr) return Adapted(x, LayerProduct::kDown);
    return Linear(x, tensors.down);
  }

 private:
  Tensor Adapted(const Tensor& x, LayerProduct product) const {
    return MultiplyAdapted(x, {adapter, &adapter->products[static_cast<size_t>(product)]});
  }
};

// Part `index` of the layers of what the tensors are parts of; null: of nothing.
template <typename Blocks>
std::shared_ptr<const typename Blocks::Layer> LayerOf(const std::shared_ptr<const Blocks>& blocks,
                                                      size_t index) {
  if (blocks == nullptr) return nullptr;
  return {blocks, &blocks->layers[index]};
}

NormForm FormOf(const DecoderPlan& plan) {
  return {plan.norm_eps, plan.norm_offset};
}

Tensor Attend(size_t index, const LayerProducts& products, const Tensor& h,
              const std::shared_ptr<const PackShape>& shape) {
  const LayerTensors& layer = products.tensors;
  Tensor qkv = products.Qkv(h);
  if (layer.q_norm.defined()) {
    const NormForm form = FormOf(shape->plan);
    const bool whole = shape->plan.layers[index].qk_norm == QueryKeyNorm::kWhole;
    const Qkv views = QkvViews(qkv, shape->heads, shape->kv_heads, shape->head_dim);
    const int64_t n = qkv.size(0);
    const auto normed = [&](const Tensor& heads, const Tensor& weight) {
      return Norm(whole ? heads.reshape({n, -1}) : heads, weight, form).view({n, -1});
    };
    qkv = at::cat(
        {normed(views.q, layer.q_norm), normed(views.k, layer.k_norm), views.v.reshape({n, -1})},
        1);
  }
  return products.O(CudaAttention(qkv, shape, index));
}

// One layer of a pass; what it adds to its input is `more`.
Rows RunLayer(size_t index, const LayerProducts& products, const Rows& in,
              const std::shared_ptr<const PackShape>& shape) {
  const LayerTensors& layer = products.tensors;
  const NormForm form = FormOf(shape->plan);
  const auto out = [&](const Tensor& product, const Tensor& weight) {
    return weight.defined() ? Norm(product, weight, form) : product;
  };
  const NormedRows first = AddAndNorm(in, layer.attention_in, form);
  const Rows attended{first.sum,
                      out(Attend(index, products, first.normed, shape), layer.attention_out)};
  const NormedRows second = AddAndNorm(attended, layer.mlp_in, form);
  const Tensor act = GateFunction::apply(products.GateUp(second.normed), shape->plan.activation);
  return {second.sum, out(products.Down(act), layer.mlp_out)};
}

}  // namespace

bool CudaForwardApplies(const ModelConfig& config, const ModelTensorsView& view,
                        at::ScalarType compute) {
  return OnGpu(view.embed) && compute == at::kBFloat16 && CudaKernelsFit(config);
}

bool CudaKernelsFit(const ModelConfig& config) {
  // Norms of all heads together are as wide as the queries.
  const bool whole = SpecOf(config.family).layer.qk_norm == QueryKeyNorm::kWhole;
  return (!whole || config.q_size() <= 8192) && config.head_dim % 8 == 0 &&
         config.head_dim <= 256 && config.hidden_size % 4 == 0 && config.hidden_size <= 8192 &&
         config.intermediate_size % 4 == 0;
}

Tensor CudaForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                         const PackedBatch& batch, bool recompute) {
  const std::shared_ptr<const PackShape> shape = CudaPackShape(config, batch);
  const std::shared_ptr<const CudaLeaves>& leaves = view.leaves;
  if (leaves != nullptr) leaves->Refresh();
  if (view.adapter != nullptr) view.adapter->Refresh();
  Rows x{leaves != nullptr ? EmbedLeaves(view.embed, batch.tokens, {leaves, &leaves->embed})
                           : As(at::embedding(view.embed, batch.tokens), at::kBFloat16),
         Tensor()};
  if (const double scale = shape->plan.embedding_scale; scale != 1) x.sum = x.sum * scale;
  for (size_t i = 0; i < view.layers.size(); ++i) {
    const LayerProducts products{view.layers[i], LayerOf(leaves, i), LayerOf(view.adapter, i),
                                 view.product_most};
    const auto run = [i, products, shape](const Rows& in) {
      return RunLayer(i, products, in, shape);
    };
    if (recompute) {
      x = {Recomputed(x.sum,
                      [run](const Tensor& in) {
                        const Rows out = run({in, Tensor()});
                        return out.sum + out.more;
                      }),
           Tensor()};
    } else {
      x = run(x);
    }
  }
  return AddAndNorm(x, view.norm, FormOf(shape->plan)).normed;
}

double CudaGradNorm(const std::vector<Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> wide, norms;
  for (const Tensor& gradient : gradients) {
    if (gradient.scalar_type() == at::kFloat) {
      wide.push_back(gradient);
    } else {
      norms.push_back(gradient.norm(2, at::kFloat));
    }
  }
  if (!wide.empty()) {
    for (const Tensor& norm : at::_foreach_norm(wide)) norms.push_back(norm);
  }
  return norms.empty() ? 0 : at::stack(norms).norm().item<double>();
}

void CudaAdamWStep(const CudaAdamW& u, const Tensor& grad, Tensor& p, Tensor& m, Tensor& v) {
  TrainAdamWStep({u.beta1, u.beta2, u.eps, u.decay, u.rate, u.root, u.grad_scale}, p.numel(),
                 grad.data_ptr<float>(), p.data_ptr<float>(), m.data_ptr<float>(),
                 v.data_ptr<float>(), CurrentStream());
}

void CudaSplitAdamWStep(const AdamWUpdate& update, uint64_t step, const Tensor& grad, Tensor& p,
                        const CudaSplitMoments& moments) {
  TrainSplitAdamWStep(update, step,
                      {.count = p.numel(),
                       .grad = grad.data_ptr(),
                       .high = p.data_ptr(),
                       .rest = moments.rest.data_ptr<int16_t>(),
                       .first_moments = moments.first.data_ptr<uint8_t>(),
                       .first_scales = moments.first_scales.data_ptr<float>(),
                       .second_moments = moments.second.data_ptr<uint8_t>(),
                       .second_scales = moments.second_scales.data_ptr<float>()},
                      CurrentStream());
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
