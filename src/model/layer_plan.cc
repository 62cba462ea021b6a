#include "model/layer_plan.h"

#include <cmath>
#include <utility>

#include "model/families/family_spec.h"
#include "model/model_config.h"

namespace tidemill {
namespace {

class TensorList {
 public:
  explicit TensorList(const ModelConfig& config) : c_(config) {}

  void Add(std::string name, std::vector<int64_t> shape, TensorKind kind = TensorKind::kMatrix,
           bool joined = false) {
    tensors_.push_back({std::move(name), std::move(shape), kind, joined});
  }
  // Layers that read the same input: weights, then biases.
  struct Linear {
    const char* name;
    int64_t out;
  };
  void Product(int64_t layer, const std::vector<Linear>& parts, int64_t in, bool biased) {
    for (size_t i = 0; i < parts.size(); ++i) {
      Add(LayerName(layer, parts[i].name) + ".weight", {parts[i].out, in}, TensorKind::kMatrix,
          i > 0);
    }
    for (size_t i = 0; biased && i < parts.size(); ++i) {
      Add(LayerName(layer, parts[i].name) + ".bias", {parts[i].out}, TensorKind::kBias, i > 0);
    }
  }
  void Norm(int64_t layer, std::string_view name, int64_t width) {
    if (name.empty()) return;
    Add(LayerName(layer, name) + ".weight", {width}, TensorKind::kNorm);
  }
  void Layer(int64_t i, const LayerPlan& plan) {
    Norm(i, plan.attention_in, c_.hidden_size);
    Product(i,
            {{"self_attn.q_proj", c_.q_size()},
             {"self_attn.k_proj", c_.kv_size()},
             {"self_attn.v_proj", c_.kv_size()}},
            c_.hidden_size, plan.qkv_bias);
    if (plan.qk_norm != QueryKeyNorm::kNone) {
      const bool whole = plan.qk_norm == QueryKeyNorm::kWhole;
      Norm(i, "self_attn.q_norm", whole ? c_.q_size() : c_.head_dim);
      Norm(i, "self_attn.k_norm", whole ? c_.kv_size() : c_.head_dim);
    }
    Product(i, {{"self_attn.o_proj", c_.hidden_size}}, c_.q_size(), plan.output_bias);
    Norm(i, plan.attention_out, c_.hidden_size);
    Norm(i, plan.mlp_in, c_.hidden_size);
    if (plan.experts.count > 0) {
      Experts(i, plan.experts);
    } else {
      Product(i, {{"mlp.gate_proj", c_.intermediate_size}, {"mlp.up_proj", c_.intermediate_size}},
              c_.hidden_size, plan.mlp_bias);
      Product(i, {{"mlp.down_proj", c_.hidden_size}}, c_.intermediate_size, plan.mlp_bias);
    }
    Norm(i, plan.mlp_out, c_.hidden_size);
  }
  void Experts(int64_t i, const ExpertPlan& plan) {
    Add(LayerName(i, plan.router) + ".weight", {plan.count, c_.hidden_size});
    if (plan.biased) Add(RouterBiasName(i, plan), {plan.count}, TensorKind::kBias);
    for (int64_t e = 0; e < plan.count; ++e) {
      const auto add = [&](std::string_view part, std::vector<int64_t> shape, bool joined) {
        Add(ExpertName(i, plan, e, part) + ".weight", std::move(shape), TensorKind::kMatrix,
            joined);
      };
      add(plan.gate, {plan.width, c_.hidden_size}, false);
      add(plan.up, {plan.width, c_.hidden_size}, true);
      add(plan.down, {c_.hidden_size, plan.width}, false);
    }
  }
  std::vector<PlannedTensor> Take() { return std::move(tensors_); }

 private:
  const ModelConfig& c_;
  std::vector<PlannedTensor> tensors_;
};

}  // namespace

int64_t PlannedTensor::numbers() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string LayerName(int64_t layer, std::string_view rest) {
  return "model.layers." + std::to_string(layer) + "." + std::string(rest);
}

std::string ExpertName(int64_t layer, const ExpertPlan& plan, int64_t expert,
                       std::string_view rest) {
  return LayerName(layer, plan.experts) + "." + std::to_string(expert) + "." + std::string(rest);
}

std::string RouterBiasName(int64_t layer, const ExpertPlan& plan) {
  return LayerName(layer, plan.router) + ".e_score_correction_bias";
}

int64_t DecoderPlan::ChoicesOfToken() const {
  return FirstChoice(layers.size());
}

int64_t DecoderPlan::FirstChoice(size_t layer) const {
  int64_t before = 0;
  for (size_t i = 0; i < layer; ++i) before += layers[i].experts.chosen;
  return before;
}

DecoderPlan PlanDecoder(const ModelConfig& c) {
  const FamilySpec& spec = SpecOf(c.family);
  DecoderPlan plan;
  plan.ropes.push_back(c.rope);
  if (c.local_rope) plan.ropes.push_back(*c.local_rope);
  plan.activation = c.activation;
  plan.norm_offset = spec.norm_offset;
  plan.norm_eps = c.rms_norm_eps;
  if (spec.scales_embeddings) {
    plan.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  }
  plan.attention_scale =
      1.0 / std::sqrt(c.query_scalar > 0 ? c.query_scalar : static_cast<double>(c.head_dim));
  plan.tied = c.tie_word_embeddings;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    LayerPlan layer = spec.layer;
    layer.qkv_bias = c.qkv_bias;
    layer.output_bias = c.output_bias;
    layer.mlp_bias = c.mlp_bias;
    // One that no position leaves hides nothing.
    const bool hides = c.HasWindow(i) && c.window < c.max_position_embeddings;
    layer.window = hides ? c.window : 0;
    layer.rope = c.local_rope && c.HasWindow(i) ? 1 : 0;
    if (c.experts.In(i)) {
      layer.experts.count = c.experts.count;
      layer.experts.chosen = c.experts.chosen;
      layer.experts.width = c.experts.width;
      layer.experts.normalized = c.experts.normalized;
      layer.experts.biased = c.experts.biased;
    }
    plan.layers.push_back(layer);
  }
  return plan;
}

std::vector<PlannedTensor> PlanTensors(const ModelConfig& c) {
  const DecoderPlan plan = PlanDecoder(c);
  TensorList list(c);
  list.Add("model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    list.Layer(static_cast<int64_t>(i), plan.layers[i]);
  }
  list.Add("model.norm.weight", {c.hidden_size}, TensorKind::kNorm);
  if (!plan.tied) list.Add("lm_head.weight", {c.vocab_size, c.hidden_size});
  return list.Take();
}

}  // namespace tidemill
