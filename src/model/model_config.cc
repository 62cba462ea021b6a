#include "model/model_config.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>

#include "core/files.h"
#include "model/families/expert_fields.h"
#include "model/families/family_spec.h"
#include "model/families/rope_fields.h"
#include "model/families/window_fields.h"
#include "model/json_fields.h"
#include "model/model_folder.h"

namespace tidemill {
namespace {

constexpr int64_t kVocabMax = int64_t{1} << 22;
constexpr int64_t kHiddenMax = int64_t{1} << 17;
constexpr int64_t kIntermediateMax = int64_t{1} << 20;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kHeadDimMax = 1024;

std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true);
}

// "llama", "qwen2" and "qwen3".
std::string FamiliesText() {
  const std::span<const ModelFamily> families = AllFamilies();
  std::string text;
  for (size_t i = 0; i < families.size(); ++i) {
    if (i > 0) text += i + 1 == families.size() ? " and " : ", ";
    text += Quoted(ModelFamilyName(families[i]));
  }
  return text;
}

// By model_type and architectures, which must not contradict each other.
ModelFamily ReadFamily(JsonFields& fields) {
  const std::optional<std::string> type = fields.MaybeString("model_type");
  const std::vector<std::string> architectures = fields.Strings("architectures");
  if (!fields.status().ok()) return ModelFamily::kLlama;
  if (!type && architectures.empty()) {
    fields.Fail("model_type", "is missing");
    return ModelFamily::kLlama;
  }
  for (const ModelFamily family : AllFamilies()) {
    const FamilySpec& spec = SpecOf(family);
    if (type && *type != spec.model_type) continue;
    if (std::find(architectures.begin(), architectures.end(), spec.architecture) !=
        architectures.end()) {
      return family;
    }
    if (!type) continue;
    if (!architectures.empty()) {
      fields.Fail("architectures", "must hold " + Quoted(spec.architecture) + " for a " +
                                       Quoted(spec.model_type) + " model, got " +
                                       Quoted(architectures.front()));
    }
    return family;
  }
  if (type) {
    fields.Fail("model_type",
                "is " + Quoted(*type) + ", which is not supported; " + FamiliesText() + " are");
  } else {
    fields.Fail("architectures",
                "holds " + Quoted(architectures.front()) + ", which is not supported");
  }
  return ModelFamily::kLlama;
}

// Attention types that the family has no windows for.
void CheckLayerTypes(JsonFields& fields, const ModelConfig& config) {
  if (!config.windowed.empty()) return;
  for (const std::string& type : fields.Strings("layer_types")) {
    if (type == "full_attention") continue;
    fields.Fail("layer_types", "holds " + Quoted(type) + ", and no layer of this " +
                                   std::string(ModelFamilyName(config.family)) +
                                   " model has a window; only full_attention is supported");
  }
}

Activation ReadActivation(JsonFields& fields, const FamilySpec& spec) {
  const std::optional<std::string> name = fields.MaybeString(spec.activation_key);
  if (!name) return spec.activation;
  if (*name == "silu" || *name == "swish") return Activation::kSilu;
  if (*name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  fields.Fail(spec.activation_key,
              "must be \"silu\" or \"gelu_pytorch_tanh\", got " + Quoted(*name));
  return spec.activation;
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
  const FamilySpec& spec = SpecOf(config.family);
  const bool attention = fields.MaybeBool("attention_bias").value_or(false);
  const bool mlp = fields.MaybeBool("mlp_bias").value_or(false);
  const std::string none = "is true, but a " + std::string(spec.model_type) + " model has no such";
  if (attention && spec.biases == BiasRule::kNone) fields.Fail("attention_bias", none);
  if (mlp && !spec.mlp_bias) fields.Fail("mlp_bias", none);
  const bool told = spec.biases == BiasRule::kAsTold && attention;
  config.qkv_bias = told || spec.biases == BiasRule::kQueriesKeysValues;
  config.output_bias = told;
  config.mlp_bias = mlp;
}

void ReadSizes(JsonFields& fields, ModelConfig& config) {
  const FamilySpec& spec = SpecOf(config.family);
  config.vocab_size = fields.Int("vocab_size", 1, kVocabMax);
  config.hidden_size = fields.Int("hidden_size", 1, kHiddenMax);
  config.intermediate_size = fields.Int("intermediate_size", 1, kIntermediateMax);
  config.num_layers = fields.Int("num_hidden_layers", 1, kLayersMax);
  config.num_heads = fields.Int("num_attention_heads", 1, kHeadsMax);
  config.num_kv_heads =
      fields.MaybeInt("num_key_value_heads", 1, kHeadsMax).value_or(config.num_heads);
  config.max_position_embeddings = fields.MaybeInt("max_position_embeddings", 1, kPositionsMax)
                                       .value_or(spec.max_position_embeddings);
  if (const auto head_dim = fields.MaybeInt("head_dim", 2, kHeadDimMax)) {
    config.head_dim = *head_dim;
  } else if (spec.head_dim > 0) {
    config.head_dim = spec.head_dim;
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

// The rules of its family, and between fields.
Status CheckForm(const ModelConfig& config, const std::string& where) {
  const FamilySpec& spec = SpecOf(config.family);
  const std::string model = std::string(spec.model_type) + " model";
  const bool qkv_always = spec.biases == BiasRule::kQueriesKeysValues;
  const bool output = spec.biases == BiasRule::kAsTold && config.qkv_bias;
  if ((spec.biases == BiasRule::kNone && config.qkv_bias) || (qkv_always && !config.qkv_bias) ||
      config.output_bias != output) {
    return Invalid(where + "\"attention_bias\" does not fit a " + model);
  }
  if (config.mlp_bias && !spec.mlp_bias) {
    return Invalid(where + "\"mlp_bias\" is not for a " + model);
  }
  if (!config.windowed.empty() &&
      (config.windowed.size() != static_cast<size_t>(config.num_layers) || config.window < 1)) {
    return Invalid(where +
                   "\"sliding_window\" must be positive, and \"layer_types\" name each layer");
  }
  TM_RETURN_IF_ERROR(CheckExperts(config, where));
  if (config.local_rope.has_value() != (spec.local_rope_theta > 0)) {
    return Invalid(where + "\"rope_local_base_freq\" does not fit a " + model);
  }
  if (config.local_rope) TM_RETURN_IF_ERROR(CheckRope(*config.local_rope, where));
  return CheckRope(config.rope, where);
}

}  // namespace

int64_t ModelConfig::ActiveParameterCount() const {
  int64_t idle = 0;
  for (const LayerPlan& layer : PlanDecoder(*this).layers) {
    idle += (layer.experts.count - layer.experts.chosen) * 3 * layer.experts.width * hidden_size;
  }
  return ParameterCount() - idle;
}

int64_t ModelConfig::ParameterCount() const {
  int64_t count = 0;
  for (const PlannedTensor& tensor : PlanTensors(*this)) count += tensor.numbers();
  return count;
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
  TM_RETURN_IF_ERROR(CheckForm(config, where));
  if (config.dtype != Dtype::kF32 && config.dtype != Dtype::kBF16 && config.dtype != Dtype::kF16) {
    return Invalid(where + "\"dtype\" must be F32, BF16 or F16");
  }
  return Ok();
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
  const FamilySpec& spec = SpecOf(config.family);
  config.rms_norm_eps = fields.MaybeNumber("rms_norm_eps", 1e-30, 0.1).value_or(spec.rms_norm_eps);
  config.initializer_range = fields.MaybeNumber("initializer_range", 0.0, 10.0).value_or(0.02);
  config.tie_word_embeddings = fields.MaybeBool("tie_word_embeddings").value_or(spec.tied);
  config.activation = ReadActivation(fields, spec);
  ReadBiases(fields, config);
  ReadRopes(fields, where, config);
  if (spec.experts.has) ReadExperts(fields, config);
  if (spec.read != nullptr) spec.read(fields, config);
  CheckLayerTypes(fields, config);
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
