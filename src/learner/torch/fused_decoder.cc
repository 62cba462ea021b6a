#include "learner/torch/fused_decoder.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

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

struct LayerState {
  Tensor kept;  // what the attention gave for the rows that go on
  JoinedLinear qkv, out, gate_up, down;
  Rows x_in, h_in, rstd_in, projected, q, k, log_sums, attended, x_mid, h_mid, rstd_mid, gated, act;
};

}  // namespace

class FusedDecoder::Impl {
 public:
  Impl(TrainableModel& model, const TrainKernels& kernels)
      : config_(model.config()),
        view_(model.view()),
        kernels_(kernels),
        layers_(view_.layers.size()) {}

  Tensor Forward(const SegmentedPack& pack, const Tensor& rows);
  void Backward(const Tensor& hidden_gradient);

 private:
  // The rows that go on from the attention of this layer: all, but in the last those asked for.
  bool Narrows(size_t index) const { return rows_.defined() && index + 1 == layers_.size(); }
  int64_t RowsAfter(size_t index) const { return Narrows(index) ? rows_.size(0) : n_; }
  void LayerForward(size_t index, Tensor& x);
  void MlpForward(size_t index, Tensor& x);
  Tensor MlpBackward(size_t index, Tensor dx);
  void LayerBackward(size_t index, Tensor& dx);
  void AttentionBackward(size_t index, const Tensor& dattended, Tensor& dprojected);
  void ExtendRotation(int64_t positions);
  void Norm(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& rstd) const {
    kernels_.rms_forward(x.size(0), x.size(1), Data(x), Data(weight),
                         static_cast<float>(config_.rms_norm_eps), Data(y), Data(rstd));
  }
  void NormBackward(const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& dy,
                    Tensor& dx) const {
    kernels_.rms_backward(x.size(0), x.size(1), Data(x), Data(weight), Data(rstd), Data(dy),
                          Data(dx), Data(JoinedLinear::Gradient(weight)));
  }
  AttentionShape Attention() const {
    return {pack_.segments.data(), static_cast<int64_t>(pack_.segments.size()),
            config_.num_heads,     config_.num_kv_heads,
            config_.head_dim,      config_.q_size() + 2 * config_.kv_size()};
  }
  HeadsShape Heads(const LayerTensors& layer) const {
    return {n_,
            config_.num_heads,
            config_.num_kv_heads,
            config_.head_dim,
            layer.q_norm.defined() ? Data(layer.q_norm) : nullptr,
            layer.k_norm.defined() ? Data(layer.k_norm) : nullptr,
            static_cast<float>(config_.rms_norm_eps),
            pack_.positions.data(),
            cos_.data(),
            sin_.data()};
  }

  const ModelConfig& config_;
  const ModelTensorsView& view_;
  const TrainKernels& kernels_;
  std::vector<LayerState> layers_;
  SegmentedPack pack_;
  Tensor rows_;  // undefined: all
  int64_t n_ = 0;
  int64_t rotated_positions_ = 0;
  std::vector<float> cos_, sin_;  // [rotated_positions_, head_dim / 2]
  Rows x_, final_in_, final_rstd_, dx_, dh_, dact_, dgated_, dattended_, dprojected_, dq_, dk_;
};

void FusedDecoder::Impl::ExtendRotation(int64_t positions) {
  if (positions <= rotated_positions_) return;
  const RopeFrequencies frequencies = ComputeRopeFrequencies(config_);
  const auto half = frequencies.inverse.size();
  cos_.resize(static_cast<size_t>(positions) * half);
  sin_.resize(cos_.size());
  for (size_t p = 0; p < static_cast<size_t>(positions); ++p) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * frequencies.inverse[i];
      cos_[p * half + i] = std::cos(angle) * frequencies.attention_scaling;
      sin_[p * half + i] = std::sin(angle) * frequencies.attention_scaling;
    }
  }
  rotated_positions_ = positions;
}

void FusedDecoder::Impl::LayerForward(size_t index, Tensor& x) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t hidden = config_.hidden_size;
  s.qkv.Join({&layer.q, &layer.k, &layer.v});
  s.out.Join({&layer.o});
  s.gate_up.Join({&layer.gate, &layer.up});
  s.down.Join({&layer.down});

  Tensor x_in = s.x_in.Get(n_, hidden);
  x_in.copy_(x);
  const Tensor h_in = s.h_in.Get(n_, hidden);
  Norm(x_in, layer.input_norm, h_in, s.rstd_in.Get(n_, 1));
  const Tensor projected = s.projected.Get(n_, config_.q_size() + 2 * config_.kv_size());
  s.qkv.Apply(h_in, projected);
  const Tensor q = s.q.Get(n_, config_.q_size()), k = s.k.Get(n_, config_.kv_size());
  kernels_.heads_forward(Heads(layer), Data(projected), Data(q), Data(k));
  const Tensor attended = s.attended.Get(n_, config_.q_size());
  const Tensor log_sums = s.log_sums.Get(n_, config_.num_heads);
  const float* values = Data(projected) + config_.q_size() + config_.kv_size();
  at::parallel_for(0, config_.num_kv_heads, 1, [&](int64_t first, int64_t last) {
    kernels_.attention_forward(Attention(), first, last, Data(q), Data(k), values, Data(attended),
                               Data(log_sums));
  });
  if (Narrows(index)) {
    x = x.index_select(0, rows_);
    s.kept = attended.index_select(0, rows_);
  } else {
    s.kept = attended;
  }
  s.out.Add(s.kept, x);
  MlpForward(index, x);
}

void FusedDecoder::Impl::MlpForward(size_t index, Tensor& x) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t m = RowsAfter(index), hidden = config_.hidden_size,
                inner = config_.intermediate_size;
  Tensor x_mid = s.x_mid.Get(m, hidden);
  x_mid.copy_(x);
  const Tensor h_mid = s.h_mid.Get(m, hidden);
  Norm(x_mid, layer.post_norm, h_mid, s.rstd_mid.Get(m, 1));
  const Tensor gated = s.gated.Get(m, 2 * inner), act = s.act.Get(m, inner);
  s.gate_up.Apply(h_mid, gated);
  kernels_.swiglu_forward(m, inner, Data(gated), Data(act));
  s.down.Add(act, x);
}

Tensor FusedDecoder::Impl::Forward(const SegmentedPack& pack, const Tensor& rows) {
  const at::NoGradGuard no_grad;
  pack_ = pack;
  rows_ = rows;
  n_ = static_cast<int64_t>(pack_.tokens.size());
  TM_CHECK(n_ > 0 && pack_.positions.size() == pack_.tokens.size(), "a pack has tokens");
  ExtendRotation(*std::max_element(pack_.positions.begin(), pack_.positions.end()) + 1);
  Tensor x = x_.Get(n_, config_.hidden_size);
  const float* embedding = Data(view_.embed);
  for (int64_t i = 0; i < n_; ++i) {
    const int64_t token = pack_.tokens[static_cast<size_t>(i)];
    TM_CHECK(token >= 0 && token < config_.vocab_size, "every token is in the vocabulary");
    std::copy_n(embedding + token * config_.hidden_size, config_.hidden_size,
                Data(x) + i * config_.hidden_size);
  }
  for (size_t l = 0; l < layers_.size(); ++l) LayerForward(l, x);
  const int64_t m = x.size(0);
  Tensor final_in = final_in_.Get(m, config_.hidden_size);
  final_in.copy_(x);
  Tensor hidden = at::empty({m, config_.hidden_size}, at::kFloat);
  Norm(final_in, view_.norm, hidden, final_rstd_.Get(m, 1));
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
    kernels_.attention_backward(Attention(), first, last, Data(q), Data(k),
                                Data(projected) + values, Data(attended), Data(log_sums),
                                Data(dattended), Data(dq), Data(dk), Data(dprojected) + values);
  });
  float* dq_norm = nullptr;
  float* dk_norm = nullptr;
  if (layer.q_norm.defined()) {
    dq_norm = Data(JoinedLinear::Gradient(layer.q_norm));
    dk_norm = Data(JoinedLinear::Gradient(layer.k_norm));
  }
  kernels_.heads_backward(Heads(layer), Data(projected), Data(dq), Data(dk), Data(dprojected),
                          dq_norm, dk_norm);
}

Tensor FusedDecoder::Impl::MlpBackward(size_t index, Tensor dx) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t m = RowsAfter(index), hidden = config_.hidden_size,
                inner = config_.intermediate_size;
  Tensor dh = dh_.Get(m, hidden), dact = dact_.Get(m, inner), dgated = dgated_.Get(m, 2 * inner);
  s.down.Backward(s.act.Get(m, inner), dx, dact);
  kernels_.swiglu_backward(m, inner, Data(s.gated.Get(m, 2 * inner)), Data(dact), Data(dgated));
  s.gate_up.Backward(s.h_mid.Get(m, hidden), dgated, dh);
  NormBackward(s.x_mid.Get(m, hidden), layer.post_norm, s.rstd_mid.Get(m, 1), dh, dx);
  return dx;
}

void FusedDecoder::Impl::LayerBackward(size_t index, Tensor& dx) {
  const LayerTensors& layer = view_.layers[index];
  LayerState& s = layers_[index];
  const int64_t hidden = config_.hidden_size;
  dx = MlpBackward(index, dx);
  Tensor dattended = dattended_.Get(RowsAfter(index), config_.q_size());
  s.out.Backward(s.kept, dx, dattended);
  if (Narrows(index)) {
    dx = at::zeros({n_, hidden}, dx.options()).index_copy_(0, rows_, dx);
    dattended = at::zeros({n_, config_.q_size()}, dx.options()).index_copy_(0, rows_, dattended);
  }
  Tensor dh = dh_.Get(n_, hidden);
  Tensor dprojected = dprojected_.Get(n_, config_.q_size() + 2 * config_.kv_size());
  AttentionBackward(index, dattended, dprojected);
  s.qkv.Backward(s.h_in.Get(n_, hidden), dprojected, dh);
  NormBackward(s.x_in.Get(n_, hidden), layer.input_norm, s.rstd_in.Get(n_, 1), dh, dx);
}

void FusedDecoder::Impl::Backward(const Tensor& hidden_gradient) {
  const at::NoGradGuard no_grad;
  const int64_t m = RowsAfter(layers_.size() - 1);
  TM_CHECK(hidden_gradient.size(0) == m, "the gradient belongs to the last pack");
  const Tensor gradient = hidden_gradient.contiguous();
  Tensor dx = dx_.Get(m, config_.hidden_size);
  dx.zero_();
  NormBackward(final_in_.Get(m, config_.hidden_size), view_.norm, final_rstd_.Get(m, 1), gradient,
               dx);
  for (size_t l = layers_.size(); l-- > 0;) LayerBackward(l, dx);
  float* embedding = Data(JoinedLinear::Gradient(view_.embed));
  for (int64_t i = 0; i < n_; ++i) {
    float* to = embedding + pack_.tokens[static_cast<size_t>(i)] * config_.hidden_size;
    const float* from = Data(dx) + i * config_.hidden_size;
    for (int64_t c = 0; c < config_.hidden_size; ++c) to[c] += from[c];
  }
}

bool FusedDecoder::Supports(const TrainableModel& model) {
  if (model.lora()) return false;
  for (const auto& [name, parameter] : model.parameters()) {
    if (OnGpu(parameter) || parameter.scalar_type() != at::kFloat || !parameter.is_contiguous()) {
      return false;
    }
  }
  return true;
}

FusedDecoder::FusedDecoder(TrainableModel& model) : FusedDecoder(model, ChooseTrainKernels()) {}
FusedDecoder::FusedDecoder(TrainableModel& model, const TrainKernels& kernels)
    : impl_(std::make_unique<Impl>(model, kernels)) {}
FusedDecoder::~FusedDecoder() = default;

Tensor FusedDecoder::Forward(const SegmentedPack& pack, const Tensor& rows) {
  return impl_->Forward(pack, rows);
}
void FusedDecoder::Backward(const Tensor& hidden_gradient) {
  impl_->Backward(hidden_gradient);
}

}  // namespace tidemill
