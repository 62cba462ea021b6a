// The differentiable forward pass over packed sequences.
#include "model/torch/aten.h"

#include "model/layer_plan.h"
#include "model/torch/attention.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_train.h"
#endif
#include "model/torch/device.h"
#include "model/torch/experts.h"
#include "model/torch/frozen_product.h"
#include "model/torch/gpu_products.h"
#include "model/torch/linear.h"
#include "model/torch/model.h"
#include "model/torch/recompute.h"

namespace tidemill {

namespace {

// The type in which matrices are multiplied. On a CPU never bfloat16: libtorch 1.13 multiplies it
// with a oneDNN that uses AMX tiles the process was never granted (illegal instruction on Sapphire
// Rapids and later), and that has no such product on processors without AVX-512. doctor says so.
at::ScalarType ProductType(const at::Tensor& weights, std::optional<at::ScalarType> asked) {
  const at::ScalarType type = asked.value_or(weights.scalar_type());
  return !OnGpu(weights) && type == at::kBFloat16 ? at::kFloat : type;
}

}  // namespace

at::Tensor As(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type ? tensor : tensor.to(type);
}

namespace {

at::Tensor Product(const at::Tensor& x, const LinearTensors& linear) {
  const at::ScalarType type = x.scalar_type();
  if (!OnGpu(x) && linear.weight.scalar_type() != type && !linear.weight.requires_grad()) {
    return FrozenProduct(x, linear.weight, linear.bias);
  }
  return LinearProduct(x, As(linear.weight, type),
                       linear.bias.defined() ? As(linear.bias, type) : at::Tensor());
}

}  // namespace

at::Tensor LowRankProduct(const at::Tensor& x, const LinearTensors& adapter) {
  const at::ScalarType type = x.scalar_type();
  const at::Tensor low = LinearProduct(x, As(adapter.lora_a, type));
  return LinearProduct(low, As(adapter.lora_b, type)) * adapter.lora_scale;
}

at::Tensor Linear(const at::Tensor& x, const LinearTensors& linear) {
  const at::Tensor y = Product(x, linear);
  return linear.lora_a.defined() ? y + LowRankProduct(x, linear) : y;
}

namespace {

// The statistics are float32 whatever the type of x.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, const DecoderPlan& plan) {
  const at::Tensor wide = As(x, at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true) + plan.norm_eps);
  const at::Tensor gain = plan.norm_offset == 0 ? weight : weight + plan.norm_offset;
  return As(wide * scale, x.scalar_type()) * As(gain, x.scalar_type());
}

// Where there is one.
at::Tensor MaybeNorm(const at::Tensor& x, const at::Tensor& weight, const DecoderPlan& plan) {
  return weight.defined() ? RmsNorm(x, weight, plan) : x;
}

struct Rotation {
  at::Tensor cos;  // [n, 1, head_dim / 2]
  at::Tensor sin;
};

Rotation MakeRotation(const RopeConfig& rope, int64_t head_dim, const at::Tensor& positions,
                      at::ScalarType type) {
  const RopeFrequencies frequencies = ComputeRopeFrequencies(rope, head_dim);
  const at::Tensor inverse = at::from_blob(const_cast<float*>(frequencies.inverse.data()),
                                           {static_cast<int64_t>(frequencies.inverse.size())},
                                           at::TensorOptions().dtype(at::kFloat))
                                 .clone()
                                 .to(positions.device());
  const at::Tensor angles = (positions.to(at::kFloat).unsqueeze(1) * inverse).unsqueeze(1);
  return {As(at::cos(angles) * frequencies.attention_scaling, type),
          As(at::sin(angles) * frequencies.attention_scaling, type)};
}

// x [n, heads, head_dim]: pairs (i, i + head_dim / 2) are turned.
at::Tensor Rotate(const at::Tensor& x, const Rotation& r) {
  const int64_t half = x.size(2) / 2;
  const at::Tensor first = x.narrow(2, 0, half);
  const at::Tensor second = x.narrow(2, half, half);
  return at::cat({first * r.cos - second * r.sin, second * r.cos + first * r.sin}, 2);
}

// Shared by all layers of a pass.
struct PassShape {
  const ModelConfig& config;
  DecoderPlan plan;
  std::vector<Rotation> rotations;  // by the plan's ropes
  PackSight sight;                  // without a window
  at::Tensor key_rows;              // undefined: every row's keys once, in their order
  at::Tensor experts;               // PackedBatch's
  bool replay_experts = true;       // likewise
  RouterNotes* notes = nullptr;     // null: not wanted
};

PassShape ShapeOfPass(const ModelConfig& config, const PackedBatch& batch, at::ScalarType type) {
  PassShape pass{config,        PlanDecoder(config), {}, {batch.starts, batch.starts}, {},
                 batch.experts, batch.replay_experts};
  pass.sight.scale = pass.plan.attention_scale;
  for (const RopeConfig& rope : pass.plan.ropes) {
    pass.rotations.push_back(MakeRotation(rope, config.head_dim, batch.positions, type));
  }
  if (batch.parents.empty()) return pass;
  PackedKeys keys = KeysOf(batch);
  pass.key_rows = at::from_blob(keys.rows.data(), {static_cast<int64_t>(keys.rows.size())},
                                at::TensorOptions().dtype(at::kLong))
                      .clone()
                      .to(batch.tokens.device());
  pass.sight.key_starts = std::move(keys.starts);
  return pass;
}

at::Tensor Attention(const PassShape& pass, const LayerPlan& plan, const LayerTensors& layer,
                     const at::Tensor& x) {
  const ModelConfig& c = pass.config;
  const int64_t n = x.size(0);
  const auto heads = [&](const LinearTensors& linear, const at::Tensor& norm, int64_t count) {
    at::Tensor y = Linear(x, linear);
    if (plan.qk_norm == QueryKeyNorm::kWhole) y = MaybeNorm(y, norm, pass.plan);
    y = y.view({n, count, c.head_dim});
    return plan.qk_norm == QueryKeyNorm::kByHead ? MaybeNorm(y, norm, pass.plan) : y;
  };
  const Rotation& rotation = pass.rotations[static_cast<size_t>(plan.rope)];
  const at::Tensor q = Rotate(heads(layer.q, layer.q_norm, c.num_heads), rotation);
  at::Tensor k = Rotate(heads(layer.k, layer.k_norm, c.num_kv_heads), rotation);
  at::Tensor v = heads(layer.v, {}, c.num_kv_heads);
  if (pass.key_rows.defined()) {
    k = k.index_select(0, pass.key_rows);
    v = v.index_select(0, pass.key_rows);
  }
  PackSight sight = pass.sight;
  sight.window = plan.window;
  return Linear(PackedCausalAttention(q, k, v, sight).view({n, c.q_size()}), layer.o);
}

at::Tensor GateUpDown(const DecoderPlan& plan, const LayerTensors& layer, const at::Tensor& x) {
  const at::Tensor gate = Linear(x, layer.gate);
  const at::Tensor active =
      plan.activation == Activation::kSilu ? at::silu(gate) : at::gelu(gate, "tanh");
  return Linear(active * Linear(x, layer.up), layer.down);
}

at::Tensor FeedForward(const PassShape& pass, size_t index, const LayerTensors& layer,
                       const at::Tensor& x) {
  const ExpertPlan& experts = pass.plan.layers[index].experts;
  if (experts.count == 0) return GateUpDown(pass.plan, layer, x);
  at::Tensor given;
  if (pass.experts.defined()) {
    given = pass.experts.narrow(1, pass.plan.FirstChoice(index), experts.chosen);
  }
  return RunExperts(pass.plan.activation, experts, layer.experts, {x, given, pass.replay_experts},
                    pass.notes);
}

at::Tensor RunLayer(const PassShape& pass, size_t index, const LayerTensors& layer,
                    const at::Tensor& in) {
  const auto norm = [&](const at::Tensor& x, const at::Tensor& weight) {
    return MaybeNorm(x, weight, pass.plan);
  };
  const at::Tensor h =
      in + norm(Attention(pass, pass.plan.layers[index], layer, norm(in, layer.attention_in)),
                layer.attention_out);
  return h + norm(FeedForward(pass, index, layer, norm(h, layer.mlp_in)), layer.mlp_out);
}

}  // namespace

PackedKeys KeysOf(const PackedBatch& batch) {
  const size_t count = batch.starts.size() - 1;
  TM_CHECK(batch.parents.empty() || batch.parents.size() == count,
           "every sequence of a pack continues one, or none");
  PackedKeys keys;
  keys.starts.push_back(0);
  const auto add = [&](size_t s) {
    for (int64_t row = batch.starts[s]; row < batch.starts[s + 1]; ++row) keys.rows.push_back(row);
  };
  for (size_t s = 0; s < count; ++s) {
    const int64_t parent = batch.parents.empty() ? -1 : batch.parents[s];
    if (parent >= 0) {
      TM_CHECK(batch.parents.at(static_cast<size_t>(parent)) < 0, "a parent continues none");
      add(static_cast<size_t>(parent));
    }
    add(s);
    keys.starts.push_back(static_cast<int64_t>(keys.rows.size()));
  }
  return keys;
}

PackedBatch Pack(const std::vector<std::vector<int32_t>>& sequences, const std::string& device) {
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;
  PackedBatch batch;
  batch.starts.push_back(0);
  for (const std::vector<int32_t>& sequence : sequences) {
    TM_CHECK(!sequence.empty(), "a packed sequence has at least one token");
    for (size_t i = 0; i < sequence.size(); ++i) {
      tokens.push_back(sequence[i]);
      positions.push_back(static_cast<int64_t>(i));
    }
    batch.starts.push_back(static_cast<int64_t>(tokens.size()));
  }
  const auto to_tensor = [&](std::vector<int64_t>& values) {
    return at::from_blob(values.data(), {static_cast<int64_t>(values.size())},
                         at::TensorOptions().dtype(at::kLong))
        .clone()
        .to(at::Device(device));
  };
  batch.tokens = to_tensor(tokens);
  batch.positions = to_tensor(positions);
  return batch;
}

at::Tensor ForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                         const PackedBatch& batch, std::optional<at::ScalarType> compute,
                         bool recompute, RouterNotes* notes) {
  TM_CHECK(notes == nullptr || !recompute, "what is computed again is noted twice");
  TM_CHECK(!batch.starts.empty() && batch.starts.front() == 0 &&
               batch.starts.back() == batch.tokens.size(0),
           "the sequences of a pack cover it");
  const at::ScalarType type = ProductType(view.embed, compute);
#ifdef TIDEMILL_CUDA
  if (CudaForwardApplies(config, view, type)) {
    return CudaForwardHidden(config, view, batch, recompute);
  }
#endif
  // Shared: what is recomputed in the backward pass needs it then.
  const auto pass = [&] {
    PassShape shape = ShapeOfPass(config, batch, type);
    shape.notes = notes;
    return std::make_shared<const PassShape>(std::move(shape));
  }();
  const DecoderPlan& plan = pass->plan;
  at::Tensor x = As(at::embedding(view.embed, batch.tokens), type);
  if (plan.embedding_scale != 1) x = x * plan.embedding_scale;
  for (size_t i = 0; i < view.layers.size(); ++i) {
    const LayerTensors& layer = view.layers[i];
    const auto run = [pass, i, &layer](const at::Tensor& in) {
      return RunLayer(*pass, i, layer, in);
    };
    x = recompute ? Recomputed(x, run) : run(x);
  }
  return RmsNorm(x, view.norm, plan);
}

at::Tensor Logits(const ModelTensorsView& view, const at::Tensor& hidden) {
  return LinearProduct(hidden, As(view.head, hidden.scalar_type())).to(at::kFloat);
}

}  // namespace tidemill
