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
  Tensor cos, sin;            // float32 [n, head_dim / 2]
  Tensor starts, key_starts;  // int32, where sequences and their keys begin, and the end
  Tensor key_rows;            // int64; undefined: every row's keys once, in their order
  int64_t longest = 0, longest_keys = 0;
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

// The way back: what several sequences saw of a row is added up, in float32.
Tensor Unseen(const Tensor& seen, int64_t rows, const Tensor& key_rows) {
  if (!key_rows.defined()) return seen.contiguous();
  Tensor sum = at::zeros({rows, seen.size(1), seen.size(2)}, seen.options().dtype(at::kFloat));
  sum.index_add_(0, key_rows, seen.to(at::kFloat));
  return sum.to(seen.scalar_type());
}

// Rotation and attention in one, so that only rotated rows are kept. `shape` must be there until
// the backward pass.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv,
                        const std::shared_ptr<const PackShape>& shape) {
    const PackShape& s = *shape;
    const Tensor rows =
        Rotated(Views(qkv.contiguous(), s.heads, s.kv_heads, s.head_dim), s.cos, s.sin, false);
    const Qkv seen = Seen(rows, s);
    const auto [out, log_sums, seed, unused, debug] =
        at::_flash_attention_forward(seen.q, seen.k, seen.v, s.starts, s.key_starts, s.longest,
                                     s.longest_keys, 0.0, /*is_causal=*/true, false);
    ctx->save_for_backward({rows, out, log_sums, seed, unused});
    ctx->saved_data["shape"] = c10::IValue::make_capsule(c10::make_intrusive<ShapeHolder>(shape));
    return out.reshape({qkv.size(0), s.heads * s.head_dim});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto holder = ctx->saved_data["shape"].toCapsule();
    const PackShape& s = *static_cast<const ShapeHolder&>(*holder).shape;
    const Tensor& rows = saved[0];
    const Qkv seen = Seen(rows, s);
    const Tensor dout = grads[0].contiguous().view({rows.size(0), s.heads, s.head_dim});
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        dout, seen.q, seen.k, seen.v, saved[1], saved[2], s.starts, s.key_starts, s.longest,
        s.longest_keys, 0.0, /*is_causal=*/true, saved[3], saved[4]);
    const int64_t n = rows.size(0);
    const Tensor back =
        Rotated({dq.contiguous(), Unseen(dk, n, s.key_rows), Unseen(dv, n, s.key_rows)}, s.cos,
                s.sin, true);
    return {back, Tensor()};
  }

 private:
  struct ShapeHolder : torch::CustomClassHolder {
    explicit ShapeHolder(std::shared_ptr<const PackShape> held) : shape(std::move(held)) {}
    std::shared_ptr<const PackShape> shape;
  };
};

// Float32 logits exist for kScoreRows rows at a time. For the backward pass probabilities are kept
// in bfloat16, which it may write over; without `keep` it computes the logits again.
class ScoresFunction : public torch::autograd::Function<ScoresFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& head,
                               const Tensor& targets, double temperature, bool keep) {
    const int64_t n = hidden.size(0);
    const auto options = hidden.options().dtype(at::kFloat);
    Rows rows{.targets = targets,
              .log_sums = at::empty({n}, options),
              .logprobs = at::empty({n}, options),
              .entropy = at::empty({n}, options),
              .probabilities = keep ? at::empty({n, head.size(0)}, hidden.options()) : Tensor(),
              .temperature = temperature};
    for (int64_t first = 0; first < n; first += kScoreRows) {
      const int64_t count = std::min(kScoreRows, n - first);
      const Tensor logits = at::mm(hidden.narrow(0, first, count), head.t(), at::kFloat);
      TrainScoresForward(rows.Args(logits, first, count, head.size(0)), Stream());
    }
    ctx->save_for_backward(
        {hidden, head, targets, rows.log_sums, rows.logprobs, rows.entropy, rows.probabilities});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["head_grad"] = head.requires_grad();
    return {rows.logprobs, rows.entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &head = saved[1];
    const Rows rows{.targets = saved[2],
                    .log_sums = saved[3],
                    .logprobs = saved[4],
                    .entropy = saved[5],
                    .probabilities = saved[6],
                    .temperature = ctx->saved_data["temperature"].toDouble()};
    const Tensor dlog = grads[0].defined() ? grads[0].contiguous() : Tensor();
    const Tensor dent = grads[1].defined() ? grads[1].contiguous() : Tensor();
    const bool head_grad = ctx->saved_data["head_grad"].toBool();
    const auto at = [](const Tensor& t, int64_t first) {
      return t.defined() ? t.data_ptr<float>() + first : nullptr;
    };
    const int64_t n = hidden.size(0);
    if (rows.probabilities.defined()) {
      TrainScoresBackwardInPlace(rows.Args(Tensor(), 0, n, head.size(0)), at(dlog, 0), at(dent, 0),
                                 Stream());
      const Tensor& dlogits = rows.probabilities;
      return {at::mm(dlogits, head), head_grad ? at::mm(dlogits.t(), hidden) : Tensor(), Tensor(),
              Tensor(), Tensor()};
    }
    Tensor dhidden = at::empty_like(hidden);
    Tensor dhead = head_grad ? at::zeros_like(head, head.options().dtype(at::kFloat)) : Tensor();
    for (int64_t first = 0; first < n; first += kScoreRows) {
      const int64_t count = std::min(kScoreRows, n - first);
      const Tensor h = hidden.narrow(0, first, count);
      const Tensor logits = at::mm(h, head.t(), at::kFloat);
      Tensor dlogits = at::empty(logits.sizes(), hidden.options());
      TrainScoresBackward(rows.Args(logits, first, count, head.size(0)), at(dlog, first),
                          at(dent, first), dlogits.data_ptr(), Stream());
      Tensor part = dhidden.narrow(0, first, count);
      at::mm_out(part, dlogits, head);
      if (head_grad) dhead.add_(at::mm(dlogits.t(), h));
    }
    if (head_grad) dhead = dhead.to(head.scalar_type());
    return {dhidden, dhead, Tensor(), Tensor(), Tensor()};
  }

 private:
  // Of all rows; logits and probabilities may be undefined.
  struct Rows {
    Tensor targets, log_sums, logprobs, entropy, probabilities;
    double temperature = 1;

    TrainScoresArgs Args(const Tensor& logits, int64_t first, int64_t count, int64_t width) const {
      const auto floats = [&](const Tensor& t) {
        return t.defined() ? t.data_ptr<float>() + first : nullptr;
      };
      return {.rows = count,
              .width = width,
              .scale = static_cast<float>(1.0 / temperature),
              .logits = logits.defined() ? logits.data_ptr<float>() : nullptr,
              .targets = targets.data_ptr<int64_t>() + first,
              .log_sums = floats(log_sums),
              .logprobs = floats(logprobs),
              .entropy = floats(entropy),
              .probabilities = probabilities.defined()
                                   ? probabilities.data_ptr<at::BFloat16>() + first * width
                                   : nullptr};
    }
  };
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
  shape.starts = Boundaries(batch.starts, device, shape.longest);
  if (batch.parents.empty()) {
    shape.key_starts = shape.starts;
    shape.longest_keys = shape.longest;
    return made;
  }
  const PackedKeys keys = KeysOf(batch);
  shape.key_starts = Boundaries(keys.starts, device, shape.longest_keys);
  shape.key_rows = Uploaded(keys.rows, at::kLong, device);
  return made;
}

Tensor Attend(const ModelConfig& config, const LayerTensors& layer, const Tensor& h,
              const std::shared_ptr<const PackShape>& shape) {
  Tensor qkv = Joined(h, {&layer.q, &layer.k, &layer.v});
  if (layer.q_norm.defined()) {
    const Qkv views = Views(qkv, shape->heads, shape->kv_heads, shape->head_dim);
    const int64_t n = qkv.size(0);
    qkv = at::cat(
        {Norm(views.q, layer.q_norm, config.rms_norm_eps).view({n, -1}),
         Norm(views.k, layer.k_norm, config.rms_norm_eps).view({n, -1}), views.v.reshape({n, -1})},
        1);
  }
  return Linear(AttentionFunction::apply(qkv, shape), layer.o);
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
  const std::shared_ptr<const PackShape> shape = ShapeOf(config, batch);
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
                              double temperature, bool recompute) {
  const bool keep = at::GradMode::is_enabled() && !recompute;
  auto out =
      ScoresFunction::apply(hidden.contiguous(), head, targets.contiguous(), temperature, keep);
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
