// A model's shape: config.json of a Hugging Face directory, checked field by field.
//
//   config.json bytes -> ParseModelConfig -> ModelConfig -> ModelConfigJson -> config.json bytes
//
// Knows the decoders of model/families; everything else is refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/activation.h"
#include "model/dtype.h"
#include "model/families/families.h"
#include "model/rope_config.h"

namespace tidemill {

// The layers whose feed-forward part is several experts, of which a router chooses some for each
// token.
struct ExpertsConfig {
  int64_t count = 0;        // in each of these layers; 0: no layer has any
  int64_t chosen = 0;       // for each token
  int64_t width = 0;        // intermediate size of one
  bool normalized = false;  // the weights of those chosen sum to 1
  // Routers add a number to each expert's probability when they choose, not to its weight; a field
  // and a tensor of our own.
  bool biased = false;
  double balance = 0.001;      // router_aux_loss_coef: kept for others, nothing here reads it
  std::vector<bool> layers{};  // which have them

  bool In(int64_t layer) const { return count > 0 && layers[static_cast<size_t>(layer)]; }
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // even; given, or hidden_size / num_heads
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;     // q_proj, k_proj, v_proj
  bool output_bias = false;  // o_proj
  bool mlp_bias = false;     // gate_proj, up_proj, down_proj
  Activation activation = Activation::kSilu;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers with a window, where theirs is another
  // Of layers with a window: a token sees itself and so many less one before it.
  int64_t window = 0;
  std::vector<bool> windowed;  // which layers have it; empty: none
  ExpertsConfig experts;
  double query_scalar = 0;    // queries are scaled by its root; 0: head_dim
  Dtype dtype = Dtype::kF32;  // of the stored weights: F32, BF16 or F16
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;

  bool HasWindow(int64_t layer) const {
    return !windowed.empty() && windowed[static_cast<size_t>(layer)];
  }
  // Those whose feed-forward part is one.
  int64_t DenseLayers() const {
    int64_t dense = 0;
    for (int64_t i = 0; i < num_layers; ++i) dense += experts.In(i) ? 0 : 1;
    return dense;
  }
  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  // Numbers held by all weights, a tied embedding counted once.
  int64_t ParameterCount() const;
  // Those that one token is multiplied with: of the experts the chosen ones alone.
  int64_t ActiveParameterCount() const;
};

// `name` is what errors call the input ("DIR/config.json"). kInvalid names the field.
Result<ModelConfig> ParseModelConfig(std::string_view json, std::string_view name);
// DIR/config.json. kNotFound: no such file.
Result<ModelConfig> ReadModelConfig(const std::string& dir);
// The same checks as ParseModelConfig, for a config made by hand.
Status ValidateModelConfig(const ModelConfig& config, std::string_view name);

// config.json as transformers reads it (rope in both of its spellings).
std::string ModelConfigJson(const ModelConfig& config);
// Writes DIR/config.json whole or not at all; DIR must be there.
Status WriteModelConfig(const ModelConfig& config, const std::string& dir);

}  // namespace tidemill
