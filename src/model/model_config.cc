#include "model/model_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>

#include "core/files.h"
#include "model/json_fields.h"
#include "model/model_folder.h"

namespace tidemill {
namespace {

struct FamilyRow {
  ModelFamily family;
  std::string_view model_type;
  std::string_view architecture;
  int64_t max_position_embeddings;  // what transformers assumes when the file does not say
};

constexpr std::array<FamilyRow, 3> kFamilies = {{
    {ModelFamily::kLlama, "llama", "LlamaForCausalLM", 2048},
    {ModelFamily::kQwen2, "qwen2", "Qwen2ForCausalLM", 32768},
    {ModelFamily::kQwen3, "qwen3", "Qwen3ForCausalLM", 32768},
}};
constexpr int64_t kQwen3DefaultHeadDim = 128;

constexpr int64_t kVocabMax = int64_t{1} << 22;
constexpr int64_t kHiddenMax = int64_t{1} << 17;
constexpr int64_t kIntermediateMax = int64_t{1} << 20;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kHeadDimMax = 1024;
constexpr int64_t kPositionsMax = int64_t{1} << 26;

const FamilyRow& Row(ModelFamily family) {
  return kFamilies[static_cast<size_t>(family)];
}

std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true);
}

// Llama, Qwen2 or Qwen3 by model_type and architectures, which must not contradict each other.
ModelFamily ReadFamily(JsonFields& fields) {
  const std::optional<std::string> type = fields.MaybeString("model_type");
  const std::vector<std::string> architectures = fields.Strings("architectures");
  if (!fields.status().ok()) return ModelFamily::kLlama;
  if (!type && architectures.empty()) {
    fields.Fail("model_type", "is missing");
    return ModelFamily::kLlama;
  }
  for (const FamilyRow& row : kFamilies) {
    if (type && *type != row.model_type) continue;
    if (std::find(architectures.begin(), architectures.end(), row.architecture) !=
        architectures.end()) {
      return row.family;
    }
    if (!type) continue;
    if (!architectures.empty()) {
      fields.Fail("architectures", "must hold " + Quoted(row.architecture) + " for a " +
                                       Quoted(row.model_type) + " model, got " +
                                       Quoted(architectures.front()));
    }
    return row.family;
  }
  if (type) {
    fields.Fail(
        "model_type",
        "is " + Quoted(*type) + ", which is not supported; \"llama\", \"qwen2\" and \"qwen3\" are");
  } else {
    fields.Fail("architectures",
                "holds " + Quoted(architectures.front()) + ", which is not supported");
  }
  return ModelFamily::kLlama;
}

RopeType ReadRopeType(JsonFields& fields) {
  std::optional<std::string> type = fields.MaybeString("rope_type");
  if (!type) type = fields.MaybeString("type");
  if (!type || *type == "default") return RopeType::kDefault;
  if (*type == "linear") return RopeType::kLinear;
  if (*type == "llama3") return RopeType::kLlama3;
  if (*type == "yarn") return RopeType::kYarn;
  fields.Fail("rope_type", "is " + Quoted(*type) +
                               ", which is not supported; default, linear, llama3 and yarn are");
  return RopeType::kDefault;
}

// The parameters of one rope object; `theta_outside` is config.json's own rope_theta.
RopeConfig ReadRopeObject(JsonFields& fields, std::optional<double> theta_outside,
                          int64_t max_position_embeddings) {
  RopeConfig rope;
  rope.type = ReadRopeType(fields);
  rope.theta =
      fields.MaybeNumber("rope_theta", 1.0, 1e15).value_or(theta_outside.value_or(10000.0));
  if (fields.MaybeNumber("partial_rotary_factor", 0.0, 1e9).value_or(1.0) != 1.0) {
    fields.Fail("partial_rotary_factor", "other than 1 is not supported");
  }
  if (rope.type == RopeType::kDefault) return rope;
  const std::optional<int64_t> original =
      fields.MaybeInt("original_max_position_embeddings", 1, kPositionsMax);
  const std::optional<double> factor = fields.MaybeNumber("factor", 1.0, 1e6);
  if (!factor && !(rope.type == RopeType::kYarn && original)) fields.Fail("factor", "is missing");
  if (rope.type == RopeType::kLinear) {
    rope.factor = factor.value_or(1.0);
    return rope;
  }
  rope.original_max_position_embeddings = original.value_or(max_position_embeddings);
  rope.factor = factor.value_or(static_cast<double>(max_position_embeddings) /
                                static_cast<double>(rope.original_max_position_embeddings));
  if (rope.type == RopeType::kLlama3) {
    for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
      if (!fields.Has(key)) fields.Fail(key, "is missing");
    }
    if (!original) fields.Fail("original_max_position_embeddings", "is missing");
    rope.low_freq_factor = fields.MaybeNumber("low_freq_factor", 1e-6, 1e6).value_or(1.0);
    rope.high_freq_factor = fields.MaybeNumber("high_freq_factor", 1e-6, 1e6).value_or(4.0);
    return rope;
  }
  rope.beta_fast = fields.MaybeNumber("beta_fast", 1e-6, 1e6).value_or(32.0);
  rope.beta_slow = fields.MaybeNumber("beta_slow", 1e-6, 1e6).value_or(1.0);
  rope.attention_factor = fields.MaybeNumber("attention_factor", 1e-6, 1e6);
  rope.mscale = fields.MaybeNumber("mscale", 0.0, 1e6);
  rope.mscale_all_dim = fields.MaybeNumber("mscale_all_dim", 0.0, 1e6);
  rope.truncate = fields.MaybeBool("truncate").value_or(true);
  return rope;
}

RopeConfig ReadRope(JsonFields& fields, const std::string& where, int64_t max_position_embeddings) {
  const std::optional<double> theta = fields.MaybeNumber("rope_theta", 1.0, 1e15);
  if (fields.MaybeNumber("partial_rotary_factor", 0.0, 1e9).value_or(1.0) != 1.0) {
    fields.Fail("partial_rotary_factor", "other than 1 is not supported");
  }
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const nlohmann::json* object = fields.Find(key);
    if (object == nullptr) continue;
    if (!object->is_object()) {
      fields.Fail(key, "must be an object, got " + DescribeJson(*object));
      return {};
    }
    JsonFields rope_fields(*object, where + key + ": ");
    for (const auto& [name, value] : object->items()) {
      if (value.is_object()) rope_fields.Fail(name, "gives a layer its own rope: not supported");
    }
    RopeConfig rope = ReadRopeObject(rope_fields, theta, max_position_embeddings);
    if (!rope_fields.status().ok()) fields.Keep(rope_fields.status());
    return rope;
  }
  RopeConfig rope;
  rope.theta = theta.value_or(10000.0);
  return rope;
}

// Refuses what would make attention other than full. Settings that no layer uses are fine.
void CheckFullAttention(JsonFields& fields, const ModelConfig& config) {
  bool used = fields.MaybeBool("use_sliding_window").value_or(false);
  const std::optional<int64_t> window = fields.MaybeInt("sliding_window", 0, kPositionsMax);
  const std::optional<int64_t> full_layers = fields.MaybeInt("max_window_layers", 0, 1 << 20);
  const bool lists_layers = fields.Has("layer_types");
  for (const std::string& type : fields.Strings("layer_types")) {
    if (type == "full_attention") continue;
    fields.Fail("layer_types", "holds " + Quoted(type) + "; only full_attention is supported");
  }
  if (config.family == ModelFamily::kLlama || lists_layers || !window) return;
  used = used && *window < config.max_position_embeddings;
  used = used && full_layers.value_or(28) < config.num_layers;
  if (used) fields.Fail("use_sliding_window", "is true: sliding windows are not supported");
}

Dtype ReadDtype(JsonFields& fields) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::optional<std::string> name = fields.MaybeString(key);
    if (!name) continue;
    if (*name == "float32") return Dtype::kF32;
    if (*name == "bfloat16") return Dtype::kBF16;
    if (*name == "float16") return Dtype::kF16;
    fields.Fail(key, "must be \"float32\", \"bfloat16\" or \"float16\", got " + Quoted(*name));
  }
  return Dtype::kF32;
}

void ReadBiases(JsonFields& fields, ModelConfig& config) {
  const bool attention = fields.MaybeBool("attention_bias").value_or(false);
  const bool mlp = fields.MaybeBool("mlp_bias").value_or(false);
  config.qkv_bias = config.family == ModelFamily::kQwen2 || attention;
  config.output_bias = config.family != ModelFamily::kQwen2 && attention;
  config.mlp_bias = config.family == ModelFamily::kLlama && mlp;
}

void ReadSizes(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kVocabMax);
  config.hidden_size = fields.Int("hidden_size", 1, kHiddenMax);
  config.intermediate_size = fields.Int("intermediate_size", 1, kIntermediateMax);
  config.num_layers = fields.Int("num_hidden_layers", 1, kLayersMax);
  config.num_heads = fields.Int("num_attention_heads", 1, kHeadsMax);
  config.num_kv_heads =
      fields.MaybeInt("num_key_value_heads", 1, kHeadsMax).value_or(config.num_heads);
  config.max_position_embeddings = fields.MaybeInt("max_position_embeddings", 1, kPositionsMax)
                                       .value_or(Row(config.family).max_position_embeddings);
  if (const auto head_dim = fields.MaybeInt("head_dim", 2, kHeadDimMax)) {
    config.head_dim = *head_dim;
  } else if (config.family == ModelFamily::kQwen3) {
    config.head_dim = kQwen3DefaultHeadDim;
  } else if (config.hidden_size % config.num_heads != 0) {
    fields.Fail("hidden_size", "(" + std::to_string(config.hidden_size) +
                                   ") must be a multiple of \"num_attention_heads\" (" +
                                   std::to_string(config.num_heads) +
                                   ") where \"head_dim\" is not given");
  } else {
    config.head_dim = config.hidden_size / config.num_heads;
  }
}

Status CheckRange(std::string_view name, const char* key, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return Ok();
  return Invalid(std::string(name) + ": \"" + key + "\" must be a whole number from " +
                 std::to_string(min) + " to " + std::to_string(max) + ", got " +
                 std::to_string(value));
}

Status CheckRope(const RopeConfig& rope, const std::string& where) {
  if (!(rope.theta >= 1.0 && rope.theta <= 1e15)) {
    return Invalid(where + "\"rope_theta\" must be a number from 1 to 1e15");
  }
  if (rope.type == RopeType::kYarn && rope.theta == 1.0) {
    return Invalid(where + "\"rope_theta\" must be above 1 for yarn");
  }
  if (!(rope.factor >= 1.0)) return Invalid(where + "\"factor\" must be 1 or more");
  if (rope.type == RopeType::kLlama3 && !(rope.low_freq_factor < rope.high_freq_factor)) {
    return Invalid(where + "\"low_freq_factor\" must be below \"high_freq_factor\"");
  }
  const bool original = rope.type == RopeType::kLlama3 || rope.type == RopeType::kYarn;
  if (original && rope.original_max_position_embeddings < 1) {
    return Invalid(where + "\"original_max_position_embeddings\" must be positive");
  }
  return Ok();
}

}  // namespace

std::string_view ModelFamilyName(ModelFamily family) {
  return Row(family).model_type;
}

int64_t ModelConfig::ParameterCount() const {
  const int64_t attention = hidden_size * (2 * q_size() + 2 * kv_size()) +
                            (qkv_bias ? q_size() + 2 * kv_size() : 0) +
                            (output_bias ? hidden_size : 0) + (qk_norm() ? 2 * head_dim : 0);
  const int64_t mlp =
      3 * hidden_size * intermediate_size + (mlp_bias ? 2 * intermediate_size + hidden_size : 0);
  const int64_t embeddings = vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
  return embeddings + num_layers * (attention + mlp + 2 * hidden_size) + hidden_size;
}

Status ValidateModelConfig(const ModelConfig& config, std::string_view name) {
  const std::string where = std::string(name) + ": ";
  TM_RETURN_IF_ERROR(CheckRange(name, "vocab_size", config.vocab_size, 1, kVocabMax));
  TM_RETURN_IF_ERROR(CheckRange(name, "hidden_size", config.hidden_size, 1, kHiddenMax));
  TM_RETURN_IF_ERROR(
      CheckRange(name, "intermediate_size", config.intermediate_size, 1, kIntermediateMax));
  TM_RETURN_IF_ERROR(CheckRange(name, "num_hidden_layers", config.num_layers, 1, kLayersMax));
  TM_RETURN_IF_ERROR(CheckRange(name, "num_attention_heads", config.num_heads, 1, kHeadsMax));
  TM_RETURN_IF_ERROR(
      CheckRange(name, "num_key_value_heads", config.num_kv_heads, 1, config.num_heads));
  TM_RETURN_IF_ERROR(CheckRange(name, "head_dim", config.head_dim, 2, kHeadDimMax));
  TM_RETURN_IF_ERROR(CheckRange(name, "max_position_embeddings", config.max_position_embeddings, 1,
                                kPositionsMax));
  if (config.head_dim % 2 != 0) {
    return Invalid(where + "\"head_dim\" must be even, got " + std::to_string(config.head_dim));
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return Invalid(where + "\"num_key_value_heads\" (" + std::to_string(config.num_kv_heads) +
                   ") must divide \"num_attention_heads\" (" + std::to_string(config.num_heads) +
                   ")");
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps <= 0.1)) {
    return Invalid(where + "\"rms_norm_eps\" must be above 0 and at most 0.1");
  }
  for (const int32_t id : config.eos_token_ids) {
    TM_RETURN_IF_ERROR(CheckRange(name, "eos_token_id", id, 0, config.vocab_size - 1));
  }
  const bool qwen2 = config.family == ModelFamily::kQwen2;
  if (qwen2 ? !config.qkv_bias || config.output_bias : config.qkv_bias != config.output_bias) {
    return Invalid(where + "\"attention_bias\" does not fit a " +
                   std::string(ModelFamilyName(config.family)) + " model");
  }
  if (config.mlp_bias && config.family != ModelFamily::kLlama) {
    return Invalid(where + "\"mlp_bias\" is for llama models only");
  }
  if (config.dtype != Dtype::kF32 && config.dtype != Dtype::kBF16 && config.dtype != Dtype::kF16) {
    return Invalid(where + "\"dtype\" must be F32, BF16 or F16");
  }
  return CheckRope(config.rope, where);
}

Result<ModelConfig> ParseModelConfig(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(json, name));
  const std::string where = std::string(name) + ": ";
  JsonFields fields(object, where);
  ModelConfig config;
  config.family = ReadFamily(fields);
  TM_RETURN_IF_ERROR(fields.status());
  if (const nlohmann::json* quantization = fields.Find("quantization_config")) {
    const auto method =
        quantization->is_object() ? quantization->find("quant_method") : quantization->end();
    const bool named = quantization->is_object() && method != quantization->end();
    fields.Fail("quantization_config",
                "(" + (named ? DescribeJson(*method) : std::string("of unknown method")) +
                    "): quantized weights are not supported");
  }
  ReadSizes(fields, config);
  TM_RETURN_IF_ERROR(fields.status());
  config.rms_norm_eps = fields.MaybeNumber("rms_norm_eps", 1e-30, 0.1).value_or(1e-6);
  config.initializer_range = fields.MaybeNumber("initializer_range", 0.0, 10.0).value_or(0.02);
  config.tie_word_embeddings = fields.MaybeBool("tie_word_embeddings").value_or(false);
  const std::string act = fields.MaybeString("hidden_act").value_or("silu");
  if (act != "silu" && act != "swish") {
    fields.Fail("hidden_act", "must be \"silu\", got " + Quoted(act));
  }
  ReadBiases(fields, config);
  config.rope = ReadRope(fields, where, config.max_position_embeddings);
  CheckFullAttention(fields, config);
  config.dtype = ReadDtype(fields);
  config.eos_token_ids = fields.TokenIds("eos_token_id");
  config.bos_token_id = fields.MaybeTokenId("bos_token_id");
  config.pad_token_id = fields.MaybeTokenId("pad_token_id");
  TM_RETURN_IF_ERROR(fields.status());
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, name));
  return config;
}

Result<ModelConfig> ReadModelConfig(const std::string& dir) {
  TM_RETURN_IF_ERROR(CheckModelFolder(dir));
  const std::string path = dir + "/config.json";
  if (!std::filesystem::exists(path) &&
      std::filesystem::exists(dir + "/adapter_model.safetensors")) {
    return NoWeightsIn(dir);
  }
  TM_ASSIGN_OR_RETURN(const std::string json, ReadFileBounded(path, kConfigBytesMax));
  return ParseModelConfig(json, path);
}

}  // namespace tidemill
