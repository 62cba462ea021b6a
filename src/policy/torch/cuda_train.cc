#ifdef TIDEMILL_CUDA

#include "policy/torch/cuda_train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "policy/cuda/train_kernels.h"
#include "policy/cuda/weight_layout.h"
#include "policy/torch/host_copy.h"
#include "policy/torch/recompute.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kScoreRows = 4096;  // rows whose float32 logits exist at once

CudaStream Stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

Tensor As(const Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type ? tensor : tensor.to(type);
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    const Tensor rows = x.contiguous();
    const Tensor w = As(weight.detach(), at::kFloat).contiguous();
    const TrainNormShape shape{rows.numel() / rows.size(-1), static_cast<int>(rows.size(-1)),
                               static_cast<float>(eps)};
    Tensor y = at::empty_like(rows);
    Tensor rstd = at::empty({shape.rows}, rows.options().dtype(at::kFloat));
    TrainNormForward(shape, rows.data_ptr(), w.data_ptr<float>(), y.data_ptr(),
                     rstd.data_ptr<float>(), Stream());
    ctx->save_for_backward({rows, w, rstd});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["bf16"] = weight.scalar_type() == at::kBFloat16;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    const TrainNormShape shape{saved[0].numel() / saved[0].size(-1),
                               static_cast<int>(saved[0].size(-1)),
                               static_cast<float>(ctx->saved_data["eps"].toDouble())};
    Tensor dx = at::empty_like(saved[0]);
    Tensor parts = at::empty({TrainNormParts(shape.rows), shape.width}, saved[1].options());
    TrainNormBackward(shape, saved[0].data_ptr(), saved[1].data_ptr<float>(),
                      saved[2].data_ptr<float>(), dy.data_ptr(), dx.data_ptr(),
                      parts.data_ptr<float>(), Stream());
    Tensor dw = parts.sum(0);
    if (ctx->saved_data["bf16"].toBool()) dw = dw.to(at::kBFloat16);
    return {dx, dw, Tensor()};
  }
};

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up) {
    const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
    Tensor act = at::empty({rows, width}, gate_up.options());
    TrainSwiGluForward(rows, static_cast<int>(width), gate_up.data_ptr(), act.data_ptr(), Stream());
    ctx->save_for_backward({gate_up});
    return act;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dact = grads[0].contiguous();
    Tensor dgate_up = at::empty_like(saved[0]);
    TrainSwiGluBackward(dact.size(0), static_cast<int>(dact.size(1)), saved[0].data_ptr(),
                        dact.data_ptr(), dgate_up.data_ptr(), Stream());
    return {dgate_up};
  }
};

// What attention needs to know of a pack.
struct PackShape {
  Tensor cos, sin;    // float32 [n, head_dim / 2]
  Tensor boundaries;  // int32, where sequences begin, and the end
  int64_t longest = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

struct Qkv {
  Tensor q, k, v;
};
Qkv Views(const Tensor& rows, int64_t heads, int64_t kv_heads, int64_t d) {
  const Tensor split = rows.view({rows.size(0), heads + 2 * kv_heads, d});
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kv_heads),
          split.narrow(1, heads + kv_heads, kv_heads)};
}

Tensor Rotated(const Qkv& from, const Tensor& cos, const Tensor& sin, bool back) {
  const int64_t n = from.q.size(0), d = from.q.size(2);
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
               .cos = cos.data_ptr<float>(),
               .sin = sin.data_ptr<float>(),
               .back = back,
               .out = out.data_ptr()},
              Stream());
  return out;
}

// Rotation and attention in one, so that only rotated rows are kept.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& cos,
                        const Tensor& sin, const Tensor& boundaries, int64_t longest, int64_t heads,
                        int64_t kv_heads) {
    const int64_t d = qkv.size(1) / (heads + 2 * kv_heads);
    const Tensor rows = Rotated(Views(qkv.contiguous(), heads, kv_heads, d), cos, sin, false);
    const Qkv views = Views(rows, heads, kv_heads, d);
    const auto [out, log_sums, seed, unused, debug] =
        at::_flash_attention_forward(views.q, views.k, views.v, boundaries, boundaries, longest,
                                     longest, 0.0, /*is_causal=*/true, false);
    ctx->save_for_backward({rows, cos, sin, boundaries, out, log_sums, seed, unused});
    ctx->saved_data["longest"] = longest;
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["kv_heads"] = kv_heads;
    return out.reshape({qkv.size(0), heads * d});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const int64_t longest = ctx->saved_data["longest"].toInt();
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const int64_t kv_heads = ctx->saved_data["kv_heads"].toInt();
    const Tensor& rows = saved[0];
    const int64_t d = rows.size(1) / (heads + 2 * kv_heads);
    const Qkv views = Views(rows, heads, kv_heads, d);
    const Tensor dout = grads[0].contiguous().view({rows.size(0), heads, d});
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        dout, views.q, views.k, views.v, saved[4], saved[5], saved[3], saved[3], longest, longest,
        0.0, /*is_causal=*/true, saved[6], saved[7]);
    const Tensor back =
        Rotated({dq.contiguous(), dk.contiguous(), dv.contiguous()}, saved[1], saved[2], true);
    return {back, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

class ScoresFunction : public torch::autograd::Function<ScoresFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& head,
                               const Tensor& targets, double temperature) {
    const int64_t n = hidden.size(0);
    const auto options = hidden.options().dtype(at::kFloat);
    Tensor logprobs = at::empty({n}, options), entropy = at::empty({n}, options);
    Tensor log_sums = at::empty({n}, options);
    for (int64_t first = 0; first < n; first += kScoreRows) {
      const int64_t rows = std::min(kScoreRows, n - first);
      const Tensor logits = at::mm(hidden.narrow(0, first, rows), head.t(), at::kFloat);
      TrainScoresForward(Args(logits, targets, temperature, first, log_sums, logprobs, entropy),
                         Stream());
    }
    ctx->save_for_backward({hidden, head, targets, log_sums, entropy});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["head_grad"] = head.requires_grad();
    return {logprobs, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& hidden = saved[0];
    const Tensor& head = saved[1];
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const bool head_grad = ctx->saved_data["head_grad"].toBool();
    const Tensor dlog = grads[0].defined() ? grads[0].contiguous() : Tensor();
    const Tensor dent = grads[1].defined() ? grads[1].contiguous() : Tensor();
    Tensor dhidden = at::empty_like(hidden);
    Tensor dhead = head_grad ? at::zeros_like(head, head.options().dtype(at::kFloat)) : Tensor();
    Tensor logprobs;
    for (int64_t first = 0; first < hidden.size(0); first += kScoreRows) {
      const int64_t rows = std::min(kScoreRows, hidden.size(0) - first);
      const Tensor h = hidden.narrow(0, first, rows);
      const Tensor logits = at::mm(h, head.t(), at::kFloat);
      Tensor dlogits = at::empty(logits.sizes(), hidden.options());
      TrainScoresBackward(Args(logits, saved[2], temperature, first, saved[3], logprobs, saved[4]),
                          dlog.defined() ? dlog.data_ptr<float>() + first : nullptr,
                          dent.defined() ? dent.data_ptr<float>() + first : nullptr,
                          dlogits.data_ptr(), Stream());
      Tensor part = dhidden.narrow(0, first, rows);
      at::mm_out(part, dlogits, head);
      if (head_grad) dhead.add_(at::mm(dlogits.t(), h));
    }
    if (head_grad) dhead = dhead.to(head.scalar_type());
    return {dhidden, dhead, Tensor(), Tensor()};
  }

 private:
  static TrainScoresArgs Args(const Tensor& logits, const Tensor& targets, double temperature,
                              int64_t first, const Tensor& log_sums, const Tensor& logprobs,
                              const Tensor& entropy) {
    return {.rows = logits.size(0),
            .width = logits.size(1),
            .scale = static_cast<float>(1.0 / temperature),
            .logits = logits.data_ptr<float>(),
            .targets = targets.data_ptr<int64_t>() + first,
            .log_sums = log_sums.data_ptr<float>() + first,
            .logprobs = logprobs.defined() ? logprobs.data_ptr<float>() + first : nullptr,
            .entropy = entropy.data_ptr<float>() + first};
  }
};

Tensor Norm(const Tensor& x, const Tensor& weight, double eps) {
  return NormFunction::apply(x, weight, eps);
}

Tensor Linear(const Tensor& x, const LinearTensors& linear) {
  const at::ScalarType type = x.scalar_type();
  Tensor y = at::linear(x, As(linear.weight, type),
                        linear.bias.defined() ? std::optional<Tensor>(As(linear.bias, type))
                                              : std::optional<Tensor>());
  if (!linear.lora_a.defined()) return y;
  const Tensor low = at::linear(x, As(linear.lora_a, type));
  return y + at::linear(low, As(linear.lora_b, type)) * linear.lora_scale;
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
  return at::linear(
      x, at::cat(pieces),
      biases.empty() ? std::optional<Tensor>() : std::optional<Tensor>(at::cat(biases)));
}

template <typename T>
Tensor Uploaded(const std::vector<T>& values, at::ScalarType type, const at::Device& device) {
  Tensor host = HostVector(static_cast<int64_t>(values.size()), type, device);
  std::copy(values.begin(), values.end(), host.data_ptr<T>());
  return DeviceCopy(host, device);
}

PackShape ShapeOf(const ModelConfig& config, const PackedBatch& batch) {
  PackShape shape{.cos = {},
                  .sin = {},
                  .boundaries = {},
                  .longest = 0,
                  .heads = config.num_heads,
                  .kv_heads = config.num_kv_heads,
                  .head_dim = config.head_dim};
  const RopeFrequencies frequencies = ComputeRopeFrequencies(config);
  const at::Device device = batch.positions.device();
  const Tensor inverse = Uploaded(frequencies.inverse, at::kFloat, device);
  const Tensor angles = batch.positions.to(at::kFloat).unsqueeze(1) * inverse;
  shape.cos = (at::cos(angles) * frequencies.attention_scaling).contiguous();
  shape.sin = (at::sin(angles) * frequencies.attention_scaling).contiguous();
  std::vector<int32_t> boundaries;
  for (size_t i = 0; i < batch.starts.size(); ++i) {
    boundaries.push_back(static_cast<int32_t>(batch.starts[i]));
    if (i > 0) shape.longest = std::max(shape.longest, batch.starts[i] - batch.starts[i - 1]);
  }
  shape.boundaries = Uploaded(boundaries, at::kInt, device);
  return shape;
}

Tensor Attend(const ModelConfig& config, const LayerTensors& layer, const Tensor& h,
              const PackShape& shape) {
  Tensor qkv = Joined(h, {&layer.q, &layer.k, &layer.v});
  if (layer.q_norm.defined()) {
    const Qkv views = Views(qkv, shape.heads, shape.kv_heads, shape.head_dim);
    const int64_t n = qkv.size(0);
    qkv = at::cat(
        {Norm(views.q, layer.q_norm, config.rms_norm_eps).view({n, -1}),
         Norm(views.k, layer.k_norm, config.rms_norm_eps).view({n, -1}), views.v.reshape({n, -1})},
        1);
  }
  return Linear(AttentionFunction::apply(qkv, shape.cos, shape.sin, shape.boundaries, shape.longest,
                                         shape.heads, shape.kv_heads),
                layer.o);
}

}  // namespace

bool CudaForwardApplies(const ModelConfig& config, const ModelTensorsView& view,
                        at::ScalarType compute) {
  return view.embed.is_cuda() && compute == at::kBFloat16 && config.head_dim % 8 == 0 &&
         config.head_dim <= 256 && config.hidden_size % 4 == 0 && config.hidden_size <= 8192 &&
         config.intermediate_size % 4 == 0;
}

Tensor CudaForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                         const PackedBatch& batch, bool recompute) {
  const PackShape shape = ShapeOf(config, batch);
  Tensor x = As(at::embedding(view.embed, batch.tokens), at::kBFloat16);
  for (const LayerTensors& layer : view.layers) {
    const auto run = [&config, &layer, shape](const Tensor& in) {
      const Tensor mid =
          in + Attend(config, layer, Norm(in, layer.input_norm, config.rms_norm_eps), shape);
      const Tensor h = Norm(mid, layer.post_norm, config.rms_norm_eps);
      return mid + Linear(SwiGluFunction::apply(Joined(h, {&layer.gate, &layer.up})), layer.down);
    };
    x = recompute ? Recomputed(x, run) : run(x);
  }
  return Norm(x, view.norm, config.rms_norm_eps);
}

TokenScores CudaTokenLogprobs(const Tensor& head, const Tensor& hidden, const Tensor& targets,
                              double temperature) {
  auto out = ScoresFunction::apply(hidden.contiguous(), head, targets.contiguous(), temperature);
  return {out[0], out[1]};
}

NamedTensors CudaPackedCopies(const ModelConfig& config, const NamedTensors& tensors,
                              at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const WeightLayout layout = MakeWeightLayout(config);
  const Tensor block =
      at::empty({static_cast<int64_t>(layout.numbers)},
                tensors.at("model.embed_tokens.weight").options().dtype(type).requires_grad(false));
  NamedTensors copies;
  for (const WeightPlace& place : layout.places) {
    Tensor copy =
        block.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.numbers()))
            .view(place.shape);
    copy.copy_(tensors.at(place.name).detach());
    copies.emplace(place.name, copy);
  }
  c10::cuda::getCurrentCUDAStream().synchronize();
  return copies;
}

double CudaGradNorm(const std::vector<Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  if (gradients.empty()) return 0;
  return at::stack(at::_foreach_norm(gradients)).norm().item<double>();
}

void CudaAdamWStep(const CudaAdamW& u, const Tensor& grad, Tensor& p, Tensor& m, Tensor& v) {
  TrainAdamWStep({u.beta1, u.beta2, u.eps, u.decay, u.rate, u.root, u.grad_scale}, p.numel(),
                 grad.data_ptr<float>(), p.data_ptr<float>(), m.data_ptr<float>(),
                 v.data_ptr<float>(), Stream());
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
