#include "learner/torch/fused_decoder.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "learner/torch/exact_pass.h"
#include "model/layer_plan.h"
#include "model/torch/device.h"

namespace tidemill {
namespace {

using at::Tensor;

// A buffer of rows that is as long as the longest asked for.
class Rows {
 public:
  Tensor Get(int64_t rows, int64_t width) {
    if (!data_.defined() || data_.size(0) < rows || data_.size(1) != width) {
      data_ = at::empty({rows + rows / 8, width}, at::kFloat);
    }
    return data_.narrow(0, 0, rows);
  }

 private:
  Tensor data_;
};

float* Data(const Tensor& tensor) {
  return tensor.data_ptr<float>();
}

// Several weights with the same input as one matrix, one product instead of several.
struct JoinedLinear {
  Tensor weight;  // [out, in]
  Tensor bias;    // undefined: none
  std::vector<const LinearTensors*> parts;

  void Join(std::vector<const LinearTensors*> linears) {
    parts = std::move(linears);
    std::vector<Tensor> weights, biases;
    for (const LinearTensors* part : parts) {
      weights.push_back(part->weight);
      if (part->bias.defined()) biases.push_back(part->bias);
    }
    weight = weights.size() == 1 ? weights[0] : at::cat(weights);
    bias = biases.empty() ? Tensor() : biases.size() == 1 ? biases[0] : at::cat(biases);
  }

  // y = x Wᵀ + b
  void Apply(const Tensor& x, Tensor y) const {
    if (bias.defined()) {
      at::addmm_out(y, bias, x, weight.t());
    } else {
      at::mm_out(y, x, weight.t());
    }
  }
  // y += x Wᵀ + b
  void Add(const Tensor& x, const Tensor& y) const {
    y.addmm_(x, weight.t());
    if (bias.defined()) y.add_(bias);
  }
  // dx = dy W, and the gradients of weight and bias are added to.
  void Backward(const Tensor& x, const Tensor& dy, Tensor dx) const {
    at::mm_out(dx, dy, weight);
    int64_t first = 0;
    if (parts.size() == 1) {
      Gradient(parts[0]->weight).addmm_(dy.t(), x);
    } else {
      const Tensor gradient = at::mm(dy.t(), x);
      for (const LinearTensors* part : parts) {
        const int64_t rows = part->weight.size(0);
        Gradient(part->weight).add_(gradient.narrow(0, first, rows));
        first += rows;
      }
    }
    if (!bias.defined()) return;
    const Tensor sum = dy.sum(0);
    first = 0;
    for (const LinearTensors* part : parts) {
      const int64_t rows = part->weight.size(0);
      if (part->bias.defined()) Gradient(part->bias).add_(sum.narrow(0, first, rows));
      first += rows;
    }
  }

  static Tensor Gradient(const Tensor& leaf) {
    if (!leaf.grad().defined()) leaf.mutable_grad() = at::zeros_like(leaf);
    return leaf.grad();
  }
};

// A place where there may be a norm, and what its backward pass needs.
struct NormState {
  Tensor gains;  // undefined: there is none
  Rows in, out, rstd;
};

struct LayerState {
  Tensor kept;  // what the attention gave for the rows that go on
  JoinedLinear qkv, out, gate_up, down;
  NormState attention_in, attention_out, mlp_in, mlp_out;
  Tensor q_gains, k_gains;
  Rows projected, q, k, log_sums, attended, gated, act;
};

}  // namespace

class FusedDecoder::Impl {
 public:
  Impl(TrainableModel& model, const TrainKernels& kernels, bool exact)
      : config_(model.config()),
        plan_(PlanDecoder(config_)),
        view_(model.view()),
        kernels_(kernels),
        exact_(exact ? std::make_unique<ExactPass>(config_, view_) : nullptr),
        layers_(view_.layers.size()) {}

  Tensor Forward(const SegmentedPack& pack, const Tensor& rows);
  void Backward(const Tensor& hidden_gradient);
  ExactPass* exact() const { return exact_.get(); }

 private:
  // The rows that go on from the attention of this layer: all, but in the last those asked for.
  bool Narrows(size_t index) const { return rows_.defined() && index + 1 == layers_.size(); }
  int64_t RowsAfter(size_t index) const { return Narrows(index) ? rows_.size(0) : n_; }
  void LayerForward(size_t index, Tensor& x);
  void MlpForward(size_t index, Tensor& x);
  void MlpBackward(size_t index, Tensor& dx);
  void LayerBackward(size_t index, Tensor& dx);
  void AttentionBackward(size_t index, const Tensor& dattended, Tensor& dprojected);
  void ExtendRotations(int64_t positions);

  // A norm's factors.
  Tensor Gains(const Tensor& weight) const {
    if (!weight.defined() || plan_.norm_offset == 0) return weight;
    return weight + plan_.norm_offset;
  }
  float Eps() const { return static_cast<float>(plan_.norm_eps); }
  void Norm(const Tensor& x, const Tensor& gains, const Tensor& y, const Tensor& rstd) const {
    kernels_.rms_forward(x.size(0), x.size(1), Data(x), Data(gains), Eps(), Data(y), Data(rstd));
    if (exact_ != nullptr) exact_->Norm(x, gains, y);
  }
  // dx += ..
  void NormBackward(const Tensor& x, const Tensor& weight, const Tensor& gains, const Tensor& rstd,
                    const Tensor& dy, Tensor& dx) const {
    kernels_.rms_backward(x.size(0), x.size(1), Data(x), Data(gains), Data(rstd), Data(dy),
                          Data(dx), Data(JoinedLinear::Gradient(weight)));
  }
  // Of rows that are kept: their norm, or where there is none they themselves.
  Tensor NormIn(NormState& s, const Tensor& weight, const Tensor& x) const;
  // d of what NormIn gave, into that of the rows.
  void NormInBackward(NormState& s, const Tensor& weight, const Tensor& dy, Tensor& dx) const;
  // Its result.
  Tensor InputOf(NormState& s, int64_t rows) const {
    return (s.gains.defined() ? s.out : s.in).Get(rows, config_.hidden_size);
  }
  // x += the norm of a product; without a norm, the product. The product is `linear`'s, or `exact`.
  using ExactProduct = void (ExactPass::*)(size_t, const Tensor&, const Tensor&, bool) const;
  struct OutProduct {
    const JoinedLinear& linear;
    ExactProduct exact;
    size_t layer;
  };
  void AddOut(NormState& s, const Tensor& weight, const OutProduct& product, const Tensor& from,
              Tensor& x) const;
  // d of the product, from that of the rows it was added to.
  Tensor OutBackward(NormState& s, const Tensor& weight, const Tensor& dx);

  AttentionShape Attention(size_t index) const {
    return {.segments = pack_.segments.data(),
            .count = static_cast<int64_t>(pack_.segments.size()),
            .heads = config_.num_heads,
            .kv_heads = config_.num_kv_heads,
            .head_dim = config_.head_dim,
            .value_stride = config_.q_size() + 2 * config_.kv_size(),
            .window = plan_.layers[index].window,
            .scale = static_cast<float>(plan_.attention_scale)};
  }
  HeadsShape Heads(size_t index) const {
    const LayerState& s = layers_[index];
    const RopeTable& rotation = rotations_[static_cast<size_t>(plan_.layers[index].rope)];
    return {.rows = n_,
            .heads = config_.num_heads,
            .kv_heads = config_.num_kv_heads,
            .head_dim = config_.head_dim,
            .q_norm = s.q_gains.defined() ? Data(s.q_gains) : nullptr,
            .k_norm = s.k_gains.defined() ? Data(s.k_gains) : nullptr,
            .whole_norm = plan_.layers[index].qk_norm == QueryKeyNorm::kWhole,
            .eps = Eps(),
            .positions = pack_.positions.data(),
            .cos = rotation.cos.data(),
            .sin = rotation.sin.data()};
  }

  const ModelConfig& config_;
  const DecoderPlan plan_;
  const ModelTensorsView& view_;
  const TrainKernels& kernels_;
  const std::unique_ptr<ExactPass> exact_;  // null: another order of sums will do
  std::vector<LayerState> layers_;
  SegmentedPack pack_;
  Tensor rows_;  // undefined: all
  int64_t n_ = 0;
  int64_t rotated_positions_ = 0;
  std::vector<RopeTable> rotations_;  // of rotated_positions_, by the plan's ropes
  NormState final_;
  Rows x_, dx_, dh_, dout_, dact_, dgated_, dattended_, dprojected_, dq_, dk_;
};

void FusedDecoder::Impl::ExtendRotations(int64_t positions) {
  if (positions <= rotated_positions_) return;
  rotations_.clear();
  for (const RopeConfig& rope : plan_.ropes) {
    rotations_.push_back(MakeRopeTable(rope, config_.head_dim, positions));
  }
  rotated_positions_ = positions;
}

Tensor FusedDecoder::Impl::NormIn(NormState& s, const Tensor& weight, const Tensor& x) const {
  Tensor in = s.in.Get(x.size(0), x.size(1));
  in.copy_(x);
  s.gains = Gains(weight);
  if (!s.gains.defined()) return in;
  const Tensor out = s.out.Get(x.size(0), x.size(1));
  Norm(in, s.gains, out, s.rstd.Get(x.size(0), 1));
  return out;
}

void FusedDecoder::Impl::NormInBackward(NormState& s, const Tensor& weight, const Tensor& dy,
                                        Tensor& dx) const {
  if (!s.gains.defined()) {
    dx.add_(dy);
    return;
  }
  const int64_t rows = dx.size(0);
  NormBackward(s.in.Get(rows, dx.size(1)), weight, s.gains, s.rstd.Get(rows, 1), dy, dx);
}

void FusedDecoder::Impl::AddOut(NormState& s, const Tensor& weight, const OutProduct& product,
                                const Tensor& from, Tensor& x) const {
  s.gains = Gains(weight);
  const auto multiply = [&](const Tensor& to, bool add) {
    if (exact_ != nullptr) return (*exact_.*product.exact)(product.layer, from, to, add);
    add ? product.linear.Add(from, to) : product.linear.Apply(from, to);
  };
  if (!s.gains.defined()) return multiply(x, true);
  const Tensor in = s.in.Get(x.size(0), x.size(1)), out = s.out.Get(x.size(0), x.size(1));
  multiply(in, false);
  Norm(in, s.gains, out, s.rstd.Get(x.size(0), 1));
  x.add_(out);
}

Tensor FusedDecoder::Impl::OutBackward(NormState& s, const Tensor& weight, const Tensor& dx) {
  if (!s.gains.defined()) return dx;
  const int64_t rows = dx.size(0), width = dx.size(1);
  Tensor dout = dout_.Get(rows, width);
  dout.zero_();
  NormBackward(s.in.Get(rows, width), weight, s.gains, s.rstd.Get(rows, 1), dx, dout);
  return dout;
}

void FusedDecoder::Impl::LayerForward(size_t index, Tensor& x) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  s.qkv.Join({&layer.q, &layer.k, &layer.v});
  s.out.Join({&layer.o});
  s.gate_up.Join({&layer.gate, &layer.up});
  s.down.Join({&layer.down});
  s.q_gains = Gains(layer.q_norm);
  s.k_gains = Gains(layer.k_norm);

  const Tensor projected = s.projected.Get(n_, config_.q_size() + 2 * config_.kv_size());
  const Tensor h = NormIn(s.attention_in, layer.attention_in, x);
  exact_ != nullptr ? exact_->Qkv(index, h, projected) : s.qkv.Apply(h, projected);
  const Tensor q = s.q.Get(n_, config_.q_size()), k = s.k.Get(n_, config_.kv_size());
  kernels_.heads_forward(Heads(index), Data(projected), Data(q), Data(k));
  const Tensor attended = s.attended.Get(n_, config_.q_size());
  const Tensor log_sums = s.log_sums.Get(n_, config_.num_heads);
  const float* values = Data(projected) + config_.q_size() + config_.kv_size();
  at::parallel_for(0, config_.num_kv_heads, 1, [&](int64_t first, int64_t last) {
    kernels_.attention_forward(Attention(index), first, last, Data(q), Data(k), values,
                               Data(attended), Data(log_sums));
  });
  if (exact_ != nullptr) exact_->Attend(index, projected, attended);
  if (Narrows(index)) {
    x = x.index_select(0, rows_);
    s.kept = attended.index_select(0, rows_);
  } else {
    s.kept = attended;
  }
  AddOut(s.attention_out, layer.attention_out, {s.out, &ExactPass::O, index}, s.kept, x);
  MlpForward(index, x);
}

void FusedDecoder::Impl::MlpForward(size_t index, Tensor& x) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t m = RowsAfter(index), inner = config_.intermediate_size;
  const Tensor gated = s.gated.Get(m, 2 * inner), act = s.act.Get(m, inner);
  const Tensor h = NormIn(s.mlp_in, layer.mlp_in, x);
  if (exact_ != nullptr) {
    exact_->GateUp(index, h, gated, act);
  } else {
    s.gate_up.Apply(h, gated);
    kernels_.gate_forward(plan_.activation, m, inner, Data(gated), Data(act));
  }
  AddOut(s.mlp_out, layer.mlp_out, {s.down, &ExactPass::Down, index}, act, x);
}

Tensor FusedDecoder::Impl::Forward(const SegmentedPack& pack, const Tensor& rows) {
  const at::NoGradGuard no_grad;
  pack_ = pack;
  rows_ = rows;
  n_ = static_cast<int64_t>(pack_.tokens.size());
  TM_CHECK(n_ > 0 && pack_.positions.size() == pack_.tokens.size(), "a pack has tokens");
  ExtendRotations(*std::max_element(pack_.positions.begin(), pack_.positions.end()) + 1);
  if (exact_ != nullptr) exact_->Begin(pack_);
  Tensor x = x_.Get(n_, config_.hidden_size);
  const float* embedding = Data(view_.embed);
  for (int64_t i = 0; i < n_; ++i) {
    const int64_t token = pack_.tokens[static_cast<size_t>(i)];
    TM_CHECK(token >= 0 && token < config_.vocab_size, "every token is in the vocabulary");
    std::copy_n(embedding + token * config_.hidden_size, config_.hidden_size,
                Data(x) + i * config_.hidden_size);
  }
  if (plan_.embedding_scale != 1) x.mul_(plan_.embedding_scale);
  for (size_t l = 0; l < layers_.size(); ++l) LayerForward(l, x);
  const int64_t m = x.size(0);
  final_.gains = Gains(view_.norm);
  Tensor in = final_.in.Get(m, config_.hidden_size);
  in.copy_(x);
  Tensor hidden = at::empty({m, config_.hidden_size}, at::kFloat);
  Norm(in, final_.gains, hidden, final_.rstd.Get(m, 1));
  return hidden;
}

void FusedDecoder::Impl::AttentionBackward(size_t index, const Tensor& dattended,
                                           Tensor& dprojected) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  Tensor dq = dq_.Get(n_, config_.q_size()), dk = dk_.Get(n_, config_.kv_size());
  dk.zero_();
  dprojected.zero_();
  const Tensor projected = s.projected.Get(n_, config_.q_size() + 2 * config_.kv_size());
  const int64_t values = config_.q_size() + config_.kv_size();
  const Tensor q = s.q.Get(n_, config_.q_size()), k = s.k.Get(n_, config_.kv_size());
  const Tensor attended = s.attended.Get(n_, config_.q_size());
  const Tensor log_sums = s.log_sums.Get(n_, config_.num_heads);
  at::parallel_for(0, config_.num_kv_heads, 1, [&](int64_t first, int64_t last) {
    kernels_.attention_backward(Attention(index), first, last, Data(q), Data(k),
                                Data(projected) + values, Data(attended), Data(log_sums),
                                Data(dattended), Data(dq), Data(dk), Data(dprojected) + values);
  });
  float* dq_norm = nullptr;
  float* dk_norm = nullptr;
  if (layer.q_norm.defined()) {
    dq_norm = Data(JoinedLinear::Gradient(layer.q_norm));
    dk_norm = Data(JoinedLinear::Gradient(layer.k_norm));
  }
  kernels_.heads_backward(Heads(index), Data(projected), Data(dq), Data(dk), Data(dprojected),
                          dq_norm, dk_norm);
}

void FusedDecoder::Impl::MlpBackward(size_t index, Tensor& dx) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t m = RowsAfter(index), inner = config_.intermediate_size;
  Tensor dh = dh_.Get(m, config_.hidden_size), dact = dact_.Get(m, inner);
  const Tensor dgated = dgated_.Get(m, 2 * inner);
  s.down.Backward(s.act.Get(m, inner), OutBackward(s.mlp_out, layer.mlp_out, dx), dact);
  kernels_.gate_backward(plan_.activation, m, inner, Data(s.gated.Get(m, 2 * inner)), Data(dact),
                         Data(dgated));
  s.gate_up.Backward(InputOf(s.mlp_in, m), dgated, dh);
  NormInBackward(s.mlp_in, layer.mlp_in, dh, dx);
}

void FusedDecoder::Impl::LayerBackward(size_t index, Tensor& dx) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t hidden = config_.hidden_size;
  MlpBackward(index, dx);
  Tensor dattended = dattended_.Get(RowsAfter(index), config_.q_size());
  s.out.Backward(s.kept, OutBackward(s.attention_out, layer.attention_out, dx), dattended);
  if (Narrows(index)) {
    dx = at::zeros({n_, hidden}, dx.options()).index_copy_(0, rows_, dx);
    dattended = at::zeros({n_, config_.q_size()}, dx.options()).index_copy_(0, rows_, dattended);
  }
  Tensor dh = dh_.Get(n_, hidden);
  Tensor dprojected = dprojected_.Get(n_, config_.q_size() + 2 * config_.kv_size());
  AttentionBackward(index, dattended, dprojected);
  s.qkv.Backward(InputOf(s.attention_in, n_), dprojected, dh);
  NormInBackward(s.attention_in, layer.attention_in, dh, dx);
}

void FusedDecoder::Impl::Backward(const Tensor& hidden_gradient) {
  const at::NoGradGuard no_grad;
  const int64_t m = RowsAfter(layers_.size() - 1);
  TM_CHECK(hidden_gradient.size(0) == m, "the gradient belongs to the last pack");
  const Tensor gradient = hidden_gradient.contiguous();
  Tensor dx = dx_.Get(m, config_.hidden_size);
  dx.zero_();
  NormInBackward(final_, view_.norm, gradient, dx);
  for (size_t l = layers_.size(); l-- > 0;) LayerBackward(l, dx);
  if (plan_.embedding_scale != 1) dx.mul_(plan_.embedding_scale);
  float* embedding = Data(JoinedLinear::Gradient(view_.embed));
  for (int64_t i = 0; i < n_; ++i) {
    float* to = embedding + pack_.tokens[static_cast<size_t>(i)] * config_.hidden_size;
    const float* from = Data(dx) + i * config_.hidden_size;
    for (int64_t c = 0; c < config_.hidden_size; ++c) to[c] += from[c];
  }
}

bool FusedDecoder::Supports(const TrainableModel& model) {
  if (model.lora() || model.config().experts.count > 0) return false;
  for (const auto& [name, parameter] : model.parameters()) {
    if (OnGpu(parameter) || parameter.scalar_type() != at::kFloat || !parameter.is_contiguous()) {
      return false;
    }
  }
  return true;
}

FusedDecoder::FusedDecoder(TrainableModel& model, bool exact)
    : impl_(std::make_unique<Impl>(model, ChooseTrainKernels(), exact)) {}
FusedDecoder::FusedDecoder(TrainableModel& model, const TrainKernels& kernels)
    : impl_(std::make_unique<Impl>(model, kernels, false)) {}
FusedDecoder::~FusedDecoder() = default;

Tensor FusedDecoder::Forward(const SegmentedPack& pack, const Tensor& rows) {
  return impl_->Forward(pack, rows);
}
void FusedDecoder::WeightsChanged() {
  if (impl_->exact() != nullptr) impl_->exact()->WeightsChange();
}
const ExactPass* FusedDecoder::exact() const {
  return impl_->exact();
}
void FusedDecoder::Backward(const Tensor& hidden_gradient) {
  impl_->Backward(hidden_gradient);
}

}  // namespace tidemill
