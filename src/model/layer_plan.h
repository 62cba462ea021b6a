// How a decoder computes, layer by layer: what every forward pass reads, and whoever asks which
// tensors a model has, how large it is and what a file of it looks like.
//
//   ModelConfig -> PlanDecoder -> forward passes (engine and learner, CPU and GPU, reference)
//               -> PlanTensors -> expected tensors, layout on a GPU, random weights, parameter
//                  count
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/activation.h"
#include "model/rope_config.h"

namespace tidemill {

struct ModelConfig;

// Of queries and keys, before they are rotated.
enum class QueryKeyNorm : uint8_t {
  kNone,
  kByHead,  // each head by itself, all with the same weights
  kWhole,   // all heads of a token together
};

// A feed-forward part of several experts, of which a router chooses some for each token:
//   p = softmax(router(h)) in float32, the most likely `chosen` of them
//   w = p of these, where `normalized` over their sum
//   sum of w_e down_e(activation(gate_e(h)) up_e(h))
struct ExpertPlan {
  int64_t count = 0;  // 0: one dense part instead
  int64_t chosen = 0;
  int64_t width = 0;  // of one expert's gate
  bool normalized = false;
  bool biased = false;  // chosen by p + bias
  // Tensors by name: "mlp.gate.weight", "mlp.experts.3.gate_proj.weight".
  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts";
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// One layer:
//   x += attention_out(O(attention(qk_norm(QKV(attention_in(x))))))
//   x += mlp_out(down(activation(gate(h)) up(h))) with h = mlp_in(x), or its experts
struct LayerPlan {
  // Norms by the names of their tensors; empty: there is none.
  std::string_view attention_in = "input_layernorm";
  std::string_view attention_out = {};
  std::string_view mlp_in = "post_attention_layernorm";
  std::string_view mlp_out = {};
  QueryKeyNorm qk_norm = QueryKeyNorm::kNone;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  int64_t window = 0;  // a token sees itself and window - 1 before it; 0: all before it
  int64_t rope = 0;    // which of the plan's rotations
  ExpertPlan experts{};

  int norms() const {
    return !attention_in.empty() + !attention_out.empty() + !mlp_in.empty() + !mlp_out.empty();
  }
};

struct DecoderPlan {
  std::vector<LayerPlan> layers;
  std::vector<RopeConfig> ropes;
  Activation activation = Activation::kSilu;
  double norm_offset = 0;  // norms multiply by norm_offset + weight
  double norm_eps = 0;
  double embedding_scale = 1;  // of what goes into the first layer; the head knows nothing of it
  double attention_scale = 1;  // of the products of queries and keys
  bool tied = false;           // the head is the embedding

  // Choices that routers make for one token, all layers together, and where those of a layer are
  // among them.
  int64_t ChoicesOfToken() const;
  int64_t FirstChoice(size_t layer) const;
};

DecoderPlan PlanDecoder(const ModelConfig& config);

enum class TensorKind : uint8_t { kMatrix, kBias, kNorm };

struct PlannedTensor {
  std::string name;  // Hugging Face's
  std::vector<int64_t> shape;
  TensorKind kind = TensorKind::kMatrix;
  bool joined = false;  // lies right behind the one before: they are one product
  int64_t numbers() const;
};

// Every tensor a model of this config has (a tied head not), in the order of the computation.
std::vector<PlannedTensor> PlanTensors(const ModelConfig& config);

// "model.layers.3." + rest
std::string LayerName(int64_t layer, std::string_view rest);
// "model.layers.3.mlp.gate.e_score_correction_bias"
std::string RouterBiasName(int64_t layer, const ExpertPlan& plan);
// "model.layers.3.mlp.experts.5." + rest
std::string ExpertName(int64_t layer, const ExpertPlan& plan, int64_t expert,
                       std::string_view rest);

}  // namespace tidemill
