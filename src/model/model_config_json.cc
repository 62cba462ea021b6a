// The other direction of model_config.cc: config.json as transformers reads it.
#include <string>

#include "core/files.h"
#include "model/json_fields.h"
#include "model/model_config.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

Json TokenIdsJson(const std::vector<int32_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

Json OptionalJson(const std::optional<int32_t>& id) {
  return id ? Json(*id) : Json(nullptr);
}

const char* TypeName(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kYarn:
      return "yarn";
  }
  return "default";
}

// Without rope_theta, which stands beside it in the older spelling.
Json RopeScalingJson(const RopeConfig& rope) {
  Json json = {{"rope_type", TypeName(rope.type)}};
  if (rope.type == RopeType::kDefault) return json;
  json["factor"] = rope.factor;
  if (rope.type == RopeType::kLinear) return json;
  json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  if (rope.type == RopeType::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  if (rope.attention_factor) json["attention_factor"] = *rope.attention_factor;
  if (rope.mscale) json["mscale"] = *rope.mscale;
  if (rope.mscale_all_dim) json["mscale_all_dim"] = *rope.mscale_all_dim;
  json["truncate"] = rope.truncate;
  return json;
}

const char* DtypeWord(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16:
      return "bfloat16";
    case Dtype::kF16:
      return "float16";
    default:
      return "float32";
  }
}

const char* Architecture(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "LlamaForCausalLM";
    case ModelFamily::kQwen2:
      return "Qwen2ForCausalLM";
    case ModelFamily::kQwen3:
      return "Qwen3ForCausalLM";
  }
  return "";
}

}  // namespace

std::string ModelConfigJson(const ModelConfig& config) {
  Json json;
  json["architectures"] = {Architecture(config.family)};
  if (config.family != ModelFamily::kQwen2) json["attention_bias"] = config.qkv_bias;
  json["attention_dropout"] = 0.0;
  json["bos_token_id"] = OptionalJson(config.bos_token_id);
  json["dtype"] = DtypeWord(config.dtype);
  json["eos_token_id"] = TokenIdsJson(config.eos_token_ids);
  json["head_dim"] = config.head_dim;
  json["hidden_act"] = "silu";
  json["hidden_size"] = config.hidden_size;
  json["initializer_range"] = config.initializer_range;
  json["intermediate_size"] = config.intermediate_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  if (config.family == ModelFamily::kLlama) json["mlp_bias"] = config.mlp_bias;
  json["model_type"] = ModelFamilyName(config.family);
  json["num_attention_heads"] = config.num_heads;
  json["num_hidden_layers"] = config.num_layers;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["pad_token_id"] = OptionalJson(config.pad_token_id);
  json["rms_norm_eps"] = config.rms_norm_eps;
  const Json scaling = RopeScalingJson(config.rope);
  Json parameters = scaling;
  parameters["rope_theta"] = config.rope.theta;
  json["rope_parameters"] = parameters;
  json["rope_scaling"] = config.rope.type == RopeType::kDefault ? Json(nullptr) : scaling;
  json["rope_theta"] = config.rope.theta;
  if (config.family != ModelFamily::kLlama) json["use_sliding_window"] = false;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["torch_dtype"] = DtypeWord(config.dtype);
  json["use_cache"] = true;
  json["vocab_size"] = config.vocab_size;
  return DumpJson(json);
}

Status WriteModelConfig(const ModelConfig& config, const std::string& dir) {
  const std::string path = dir + "/config.json";
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, path));
  return WriteFileAtomically(path, ModelConfigJson(config));
}

}  // namespace tidemill
