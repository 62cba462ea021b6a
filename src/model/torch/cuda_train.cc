#ifdef TIDEMILL_CUDA

#include "model/torch/cuda_train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/cuda/train_kernels.h"
#include "model/torch/cuda_adapter.h"
#include "model/torch/cuda_leaves.h"
#include "model/torch/device.h"
#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/host_copy.h"
#include "model/torch/linear.h"
#include "model/torch/packed_flash.h"
#include "model/torch/recompute.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// {norm(x)}, or where it `adds` {x + more, norm of it}. (No input may be undefined.)
class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& more,
                               const Tensor& weight, double eps, bool adds) {
    const Tensor rows = x.contiguous();
    const Tensor w = As(weight.detach(), at::kFloat).contiguous();
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

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up) {
    const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
    Tensor act = at::empty({rows, width}, gate_up.options());
    TrainSwiGluForward(rows, static_cast<int>(width), gate_up.data_ptr(), act.data_ptr(),
                       CurrentStream());
    ctx->save_for_backward({gate_up});
    return act;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dact = grads[0].contiguous();
    Tensor dgate_up = at::empty_like(saved[0]);
    TrainSwiGluBackward(dact.size(0), static_cast<int>(dact.size(1)), saved[0].data_ptr(),
                        dact.data_ptr(), dgate_up.data_ptr(), CurrentStream());
    return {dgate_up};
  }
};

// What attention needs to know of a pack.
struct PackShape {
  Tensor cos, sin;         // float32 [n, head_dim / 2]
  FlashPack pack;          // where sequences and their keys begin
  Tensor key_rows;         // int64; undefined: every row's keys once, in their order
  Tensor first_use, uses;  // int32: of each row, where among key_rows it stands
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

using Qkv = FlashInput;
Qkv Views(const Tensor& rows, int64_t heads, int64_t kv_heads, int64_t d) {
  const Tensor split = rows.view({rows.size(0), heads + 2 * kv_heads, d});
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kv_heads),
          split.narrow(1, heads + kv_heads, kv_heads)};
}

// Turned; or back, where what several sequences saw of a row is added up.
Tensor Rotated(const Qkv& from, const PackShape& shape, bool back) {
  const int64_t n = from.q.size(0), d = from.q.size(2);
  const bool sums = back && shape.uses.defined();
  Tensor out = at::empty({n, (from.q.size(1) + 2 * from.k.size(1)) * d}, from.q.options());
  TrainRotate({.rows = n,
               .heads = static_cast<int>(from.q.size(1)),
               .kv_heads = static_cast<int>(from.k.size(1)),
               .head_dim = static_cast<int>(d),
               .q = from.q.data_ptr(),
               .k = from.k.data_ptr(),
               .v = from.v.data_ptr(),
               .q_stride = from.q.stride(0),
               .k_stride = from.k.stride(0),
               .v_stride = from.v.stride(0),
               .cos = shape.cos.data_ptr<float>(),
               .sin = shape.sin.data_ptr<float>(),
               .back = back,
               .first_use = sums ? shape.first_use.data_ptr<int32_t>() : nullptr,
               .uses = sums ? shape.uses.data_ptr<int32_t>() : nullptr,
               .out = out.data_ptr()},
              CurrentStream());
  return out;
}

// Keys and values of `rows` (q, k and v of each row) as sequences see them.
Qkv Seen(const Tensor& rows, const PackShape& shape) {
  Qkv views = Views(rows, shape.heads, shape.kv_heads, shape.head_dim);
  if (!shape.key_rows.defined()) return views;
  const Tensor both =
      rows.narrow(1, shape.heads * shape.head_dim, 2 * shape.kv_heads * shape.head_dim);
  const Tensor seen = both.index_select(0, shape.key_rows)
                          .view({shape.key_rows.size(0), 2 * shape.kv_heads, shape.head_dim});
  views.k = seen.narrow(1, 0, shape.kv_heads);
  views.v = seen.narrow(1, shape.kv_heads, shape.kv_heads);
  return views;
}

// Rotation and attention in one, so that only rotated rows are kept.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv,
                        const std::shared_ptr<const PackShape>& shape) {
    const PackShape& s = *shape;
    const Tensor rows = Rotated(Views(qkv.contiguous(), s.heads, s.kv_heads, s.head_dim), s, false);
    const FlashOutput of = PackedFlashForward(Seen(rows, s), s.pack);
    ctx->save_for_backward({rows, of.out, of.log_sums, of.seed, of.unused});
    Hold(ctx, "shape", shape);
    return of.out.reshape({qkv.size(0), s.heads * s.head_dim});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const std::shared_ptr<const PackShape> shape = TakeHeld<PackShape>(ctx, "shape");
    const PackShape& s = *shape;
    const Tensor& rows = saved[0];
    const Tensor dout = grads[0].contiguous().view({rows.size(0), s.heads, s.head_dim});
    const Qkv d =
        PackedFlashBackward(dout, Seen(rows, s), {saved[1], saved[2], saved[3], saved[4]}, s.pack);
    const Tensor back = Rotated({d.q.contiguous(), d.k.contiguous(), d.v.contiguous()}, s, true);
    return {back, Tensor()};
  }
};

Tensor Norm(const Tensor& x, const Tensor& weight, double eps) {
  return NormFunction::apply(x, x, weight, eps, false)[0];
}

// The rows as they go from layer to layer: what they are is `sum` + `more`, where that is defined.
struct Rows {
  Tensor sum, more;
};
struct NormedRows {
  Tensor sum, normed;
};
NormedRows AddAndNorm(const Rows& rows, const Tensor& weight, double eps) {
  if (!rows.more.defined()) return {rows.sum, Norm(rows.sum, weight, eps)};
  const variable_list out = NormFunction::apply(rows.sum, rows.more, weight, eps, true);
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

template <typename T>
Tensor Uploaded(const std::vector<T>& values, at::ScalarType type, const at::Device& device) {
  Tensor host = HostVector(static_cast<int64_t>(values.size()), type, device);
  std::copy(values.begin(), values.end(), host.data_ptr<T>());
  return DeviceCopy(host, device);
}

// Where sequences begin, for the device, and the longest of them.
Tensor Boundaries(const std::vector<int64_t>& starts, const at::Device& device, int64_t& longest) {
  for (size_t i = 1; i < starts.size(); ++i) longest = std::max(longest, starts[i] - starts[i - 1]);
  return Uploaded(std::vector<int32_t>(starts.begin(), starts.end()), at::kInt, device);
}

std::shared_ptr<const PackShape> ShapeOf(const ModelConfig& config, const PackedBatch& batch) {
  auto made = std::make_shared<PackShape>();
  PackShape& shape = *made;
  shape.heads = config.num_heads;
  shape.kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  const RopeFrequencies frequencies = ComputeRopeFrequencies(config);
  const at::Device device = batch.positions.device();
  const Tensor inverse = Uploaded(frequencies.inverse, at::kFloat, device);
  const Tensor angles = batch.positions.to(at::kFloat).unsqueeze(1) * inverse;
  shape.cos = (at::cos(angles) * frequencies.attention_scaling).contiguous();
  shape.sin = (at::sin(angles) * frequencies.attention_scaling).contiguous();
  FlashPack& pack = shape.pack;
  pack.starts = Boundaries(batch.starts, device, pack.longest);
  if (batch.parents.empty()) {
    pack.key_starts = pack.starts;
    pack.longest_keys = pack.longest;
    return made;
  }
  const PackedKeys keys = KeysOf(batch);
  pack.key_starts = Boundaries(keys.starts, device, pack.longest_keys);
  shape.key_rows = Uploaded(keys.rows, at::kLong, device);
  // By counting: first how often each row is used, then where.
  std::vector<int32_t> first_use(static_cast<size_t>(batch.starts.back()) + 1), uses;
  for (const int64_t row : keys.rows) ++first_use[static_cast<size_t>(row) + 1];
  for (size_t i = 1; i < first_use.size(); ++i) first_use[i] += first_use[i - 1];
  std::vector<int32_t> next(first_use.begin(), first_use.end() - 1);
  uses.resize(keys.rows.size());
  for (size_t i = 0; i < keys.rows.size(); ++i) {
    uses[static_cast<size_t>(next[static_cast<size_t>(keys.rows[i])]++)] = static_cast<int32_t>(i);
  }
  shape.first_use = Uploaded(first_use, at::kInt, device);
  shape.uses = Uploaded(uses, at::kInt, device);
  return made;
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

Tensor Attend(const ModelConfig& config, const LayerProducts& products, const Tensor& h,
              const std::shared_ptr<const PackShape>& shape) {
  const LayerTensors& layer = products.tensors;
  Tensor qkv = products.Qkv(h);
  if (layer.q_norm.defined()) {
    const Qkv views = Views(qkv, shape->heads, shape->kv_heads, shape->head_dim);
    const int64_t n = qkv.size(0);
    qkv = at::cat(
        {Norm(views.q, layer.q_norm, config.rms_norm_eps).view({n, -1}),
         Norm(views.k, layer.k_norm, config.rms_norm_eps).view({n, -1}), views.v.reshape({n, -1})},
        1);
  }
  return products.O(AttentionFunction::apply(qkv, shape));
}

}  // namespace

bool CudaForwardApplies(const ModelConfig& config, const ModelTensorsView& view,
                        at::ScalarType compute) {
  return OnGpu(view.embed) && compute == at::kBFloat16 && CudaKernelsFit(config);
}

bool CudaKernelsFit(const ModelConfig& config) {
  return config.head_dim % 8 == 0 && config.head_dim <= 256 && config.hidden_size % 4 == 0 &&
         config.hidden_size <= 8192 && config.intermediate_size % 4 == 0;
}

Tensor CudaForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                         const PackedBatch& batch, bool recompute) {
  const std::shared_ptr<const PackShape> shape = ShapeOf(config, batch);
  const std::shared_ptr<const CudaLeaves>& leaves = view.leaves;
  if (leaves != nullptr) leaves->Refresh();
  if (view.adapter != nullptr) view.adapter->Refresh();
  Rows x{leaves != nullptr ? EmbedLeaves(view.embed, batch.tokens, {leaves, &leaves->embed})
                           : As(at::embedding(view.embed, batch.tokens), at::kBFloat16),
         Tensor()};
  for (size_t i = 0; i < view.layers.size(); ++i) {
    const LayerProducts products{view.layers[i], LayerOf(leaves, i), LayerOf(view.adapter, i),
                                 view.product_most};
    const auto run = [&config, products, shape](const Rows& in) -> Rows {
      const LayerTensors& layer = products.tensors;
      const NormedRows first = AddAndNorm(in, layer.input_norm, config.rms_norm_eps);
      const Rows attended{first.sum, Attend(config, products, first.normed, shape)};
      const NormedRows second = AddAndNorm(attended, layer.post_norm, config.rms_norm_eps);
      return {second.sum, products.Down(SwiGluFunction::apply(products.GateUp(second.normed)))};
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
  return AddAndNorm(x, view.norm, config.rms_norm_eps).normed;
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
