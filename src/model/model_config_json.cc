// The other direction of model_config.cc: config.json as transformers reads it.
#include <string>

#include "core/files.h"
#include "model/families/expert_fields.h"
#include "model/families/family_spec.h"
#include "model/families/rope_fields.h"
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

}  // namespace

std::string ModelConfigJson(const ModelConfig& config) {
  const FamilySpec& spec = SpecOf(config.family);
  Json json;
  json["architectures"] = {spec.architecture};
  if (spec.biases == BiasRule::kAsTold) json["attention_bias"] = config.qkv_bias;
  json["attention_dropout"] = 0.0;
  json["bos_token_id"] = OptionalJson(config.bos_token_id);
  json["dtype"] = DtypeWord(config.dtype);
  json["eos_token_id"] = TokenIdsJson(config.eos_token_ids);
  json["head_dim"] = config.head_dim;
  json[spec.activation_key] = config.activation == Activation::kSilu ? "silu" : "gelu_pytorch_tanh";
  json["hidden_size"] = config.hidden_size;
  json["initializer_range"] = config.initializer_range;
  json["intermediate_size"] = config.intermediate_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  if (spec.mlp_bias) json["mlp_bias"] = config.mlp_bias;
  json["model_type"] = spec.model_type;
  json["num_attention_heads"] = config.num_heads;
  json["num_hidden_layers"] = config.num_layers;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["pad_token_id"] = OptionalJson(config.pad_token_id);
  json["rms_norm_eps"] = config.rms_norm_eps;
  WriteRopes(config, json);
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["torch_dtype"] = DtypeWord(config.dtype);
  json["use_cache"] = true;
  json["vocab_size"] = config.vocab_size;
  if (spec.experts.has) WriteExperts(config, json);
  if (spec.write != nullptr) spec.write(config, json);
  return DumpJson(json);
}

Status WriteModelConfig(const ModelConfig& config, const std::string& dir) {
  const std::string path = dir + "/config.json";
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, path));
  return WriteFileAtomically(path, ModelConfigJson(config));
}

}  // namespace tidemill
