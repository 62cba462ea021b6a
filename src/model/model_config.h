// What a model is: config.json of a Hugging Face directory, checked field by field.
//
//   config.json bytes -> ParseModelConfig -> ModelConfig -> ModelConfigJson -> config.json bytes
//
// Knows the dense decoders Llama, Qwen2 and Qwen3; everything else is refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/dtype.h"

namespace tidemill {

enum class ModelFamily : uint8_t { kLlama, kQwen2, kQwen3 };

// "llama", "qwen2", "qwen3": config.json's model_type.
std::string_view ModelFamilyName(ModelFamily family);

enum class RopeType : uint8_t { kDefault, kLinear, kLlama3, kYarn };

// Rotary position embedding. Fields a type does not use keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                           // linear, llama3, yarn
  int64_t original_max_position_embeddings = 0;  // llama3, yarn; 0: not given (and not used)
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  std::optional<double> attention_factor = {};   // yarn
  std::optional<double> mscale = {};             // yarn
  std::optional<double> mscale_all_dim = {};     // yarn
  bool truncate = true;  // yarn: round the correction range to whole dimensions
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
  RopeConfig rope;
  Dtype dtype = Dtype::kF32;  // of the stored weights: F32, BF16 or F16
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;

  // Qwen3 normalizes each head's queries and keys before the rotation.
  bool qk_norm() const { return family == ModelFamily::kQwen3; }
  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  // Numbers held by all weights, a tied embedding counted once.
  int64_t ParameterCount() const;
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

// The rotation of each pair of dimensions per position, head_dim / 2 of them, and what cosines and
// sines are multiplied with (1 but for yarn).
struct RopeFrequencies {
  std::vector<float> inverse;
  float attention_scaling = 1.0f;
};
RopeFrequencies ComputeRopeFrequencies(const ModelConfig& config);

}  // namespace tidemill
