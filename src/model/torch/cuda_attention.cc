#ifdef TIDEMILL_CUDA

#include "model/torch/cuda_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "model/cuda/train_kernels.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Turned; or back, where what several sequences saw of a row is added up.
Tensor Rotated(const Qkv& from, const PackShape& shape, const Angles& angles, bool back) {
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
               .cos = angles.cos.data_ptr<float>(),
               .sin = angles.sin.data_ptr<float>(),
               .back = back,
               .first_use = sums ? shape.first_use.data_ptr<int32_t>() : nullptr,
               .uses = sums ? shape.uses.data_ptr<int32_t>() : nullptr,
               .out = out.data_ptr()},
              CurrentStream());
  return out;
}

// Keys and values of `rows` (q, k and v of each row) as sequences see them.
Qkv Seen(const Tensor& rows, const PackShape& shape) {
  Qkv views = QkvViews(rows, shape.heads, shape.kv_heads, shape.head_dim);
  if (!shape.key_rows.defined()) return views;
  const Tensor both =
      rows.narrow(1, shape.heads * shape.head_dim, 2 * shape.kv_heads * shape.head_dim);
  const Tensor seen = both.index_select(0, shape.key_rows)
                          .view({shape.key_rows.size(0), 2 * shape.kv_heads, shape.head_dim});
  views.k = seen.narrow(1, 0, shape.kv_heads);
  views.v = seen.narrow(1, shape.kv_heads, shape.kv_heads);
  return views;
}

// What of one layer attention depends on. libtorch's flash attention knows no window, and of scales
// only that by the root of head_dim: queries are multiplied with the rest.
struct LayerSight {
  size_t rope = 0;
  int64_t window = 0;
  double query_factor = 1;
};

LayerSight SightOf(const PackShape& shape, size_t index) {
  const LayerPlan& layer = shape.plan.layers[index];
  LayerSight sight{static_cast<size_t>(layer.rope), layer.window, 1};
  const double usual = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  if (layer.window == 0) sight.query_factor = shape.plan.attention_scale / usual;
  return sight;
}

// Rotation and attention in one, so that only rotated rows are kept.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv,
                        const std::shared_ptr<const PackShape>& shape, const LayerSight& sight) {
    const PackShape& s = *shape;
    const Tensor rows = Rotated(QkvViews(qkv.contiguous(), s.heads, s.kv_heads, s.head_dim), s,
                                s.angles[sight.rope], false);
    if (sight.query_factor != 1) {
      rows.narrow(1, 0, s.heads * s.head_dim).mul_(sight.query_factor);
    }
    const Qkv seen = Seen(rows, s);
    FlashOutput of;
    if (sight.window > 0) {
      of.out = CausalAttentionForward(seen.q.contiguous(), seen.k.contiguous(), seen.v.contiguous(),
                                      Windowed(s, sight));
    } else {
      of = PackedFlashForward(seen, s.pack);
    }
    ctx->save_for_backward({rows, of.out, of.log_sums, of.seed, of.unused});
    ctx->saved_data["rope"] = static_cast<int64_t>(sight.rope);
    ctx->saved_data["window"] = sight.window;
    ctx->saved_data["query_factor"] = sight.query_factor;
    Hold(ctx, "shape", shape);
    return of.out.reshape({qkv.size(0), s.heads * s.head_dim});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const std::shared_ptr<const PackShape> shape = TakeHeld<PackShape>(ctx, "shape");
    const PackShape& s = *shape;
    const LayerSight sight{static_cast<size_t>(ctx->saved_data["rope"].toInt()),
                           ctx->saved_data["window"].toInt(),
                           ctx->saved_data["query_factor"].toDouble()};
    const Tensor& rows = saved[0];
    const Tensor dout = grads[0].contiguous().view({rows.size(0), s.heads, s.head_dim});
    const Qkv seen = Seen(rows, s);
    Qkv d;
    if (sight.window > 0) {
      const AttentionGradients of =
          CausalAttentionBackward(seen.q.contiguous(), seen.k.contiguous(), seen.v.contiguous(),
                                  saved[1], dout, Windowed(s, sight));
      d = {of.q, of.k, of.v};
    } else {
      d = PackedFlashBackward(dout, seen, {saved[1], saved[2], saved[3], saved[4]}, s.pack);
    }
    Tensor dq = d.q.contiguous();
    if (sight.query_factor != 1) dq = dq * sight.query_factor;
    const Tensor back =
        Rotated({dq, d.k.contiguous(), d.v.contiguous()}, s, s.angles[sight.rope], true);
    return {back, Tensor(), Tensor()};
  }

 private:
  static PackSight Windowed(const PackShape& s, const LayerSight& sight) {
    PackSight windowed = s.sight;
    windowed.window = sight.window;
    return windowed;
  }
};

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

}  // namespace

std::shared_ptr<const PackShape> CudaPackShape(const ModelConfig& config,
                                               const PackedBatch& batch) {
  auto made = std::make_shared<PackShape>();
  PackShape& shape = *made;
  shape.heads = config.num_heads;
  shape.kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.plan = PlanDecoder(config);
  shape.sight = {batch.starts, batch.starts};
  shape.sight.scale = shape.plan.attention_scale;
  const at::Device device = batch.positions.device();
  for (const RopeConfig& rope : shape.plan.ropes) {
    const RopeFrequencies frequencies = ComputeRopeFrequencies(rope, config.head_dim);
    const Tensor inverse = Uploaded(frequencies.inverse, at::kFloat, device);
    const Tensor angles = batch.positions.to(at::kFloat).unsqueeze(1) * inverse;
    shape.angles.push_back({(at::cos(angles) * frequencies.attention_scaling).contiguous(),
                            (at::sin(angles) * frequencies.attention_scaling).contiguous()});
  }
  FlashPack& pack = shape.pack;
  pack.starts = Boundaries(batch.starts, device, pack.longest);
  if (batch.parents.empty()) {
    pack.key_starts = pack.starts;
    pack.longest_keys = pack.longest;
    return made;
  }
  const PackedKeys keys = KeysOf(batch);
  pack.key_starts = Boundaries(keys.starts, device, pack.longest_keys);
  shape.sight.key_starts = keys.starts;
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

Qkv QkvViews(const Tensor& rows, int64_t heads, int64_t kv_heads, int64_t d) {
  const Tensor split = rows.view({rows.size(0), heads + 2 * kv_heads, d});
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kv_heads),
          split.narrow(1, heads + kv_heads, kv_heads)};
}

Tensor CudaAttention(const Tensor& qkv, const std::shared_ptr<const PackShape>& shape,
                     size_t layer) {
  return AttentionFunction::apply(qkv, shape, SightOf(*shape, layer));
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
