#include "model/lora_config.h"

#include <cmath>

#include "core/files.h"
#include "core/log.h"
#include "model/json_fields.h"
#include "model/text_regex.h"

namespace tidemill {
namespace {

constexpr int64_t kLoraRankMax = 65536;
constexpr std::string_view kAllLinear = "all-linear";

// Whether `pattern` matches the whole of `text`.
bool FullMatch(const std::string& pattern, std::string_view text) {
  const Result<TextRegex> regex = TextRegex::FromPcre2("\\A(?:" + pattern + ")\\z");
  if (!regex.ok()) return false;
  const TextRegex::Found found = regex->Find(text, 0);
  if (found.gave_up) {
    LogEvery(std::chrono::seconds(10), "lora-pattern", LogLevel::kError,
             "an adapter's pattern takes too many steps and matches nothing",
             {{"pattern", pattern}, {"module", text}});
  }
  return found.match.has_value();
}

// PEFT's rule for rank_pattern and alpha_pattern: the key matches the end of the name, behind a
// dot.
template <typename T>
T ByPattern(const std::map<std::string, T>& patterns, std::string_view module, T otherwise) {
  for (const auto& [key, value] : patterns) {
    if (FullMatch("(?:.*\\.)?(?:" + key + ")", module)) return value;
  }
  return otherwise;
}

bool EndsWithPart(std::string_view module, std::string_view part) {
  return module == part || (module.size() > part.size() && module.ends_with(part) &&
                            module[module.size() - part.size() - 1] == '.');
}

// Present and saying something: not null, false, "", [] or {}.
bool Says(const nlohmann::json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return value->is_number() || !value->empty();
}

void RefuseUnsupported(JsonFields& fields) {
  const std::string type = fields.MaybeString("peft_type").value_or("LORA");
  if (type != "LORA") fields.Fail("peft_type", "\"" + type + "\" is not supported; LORA is");
  const std::string task = fields.MaybeString("task_type").value_or("CAUSAL_LM");
  if (task != "CAUSAL_LM")
    fields.Fail("task_type", "\"" + task + "\" is not supported; CAUSAL_LM is");
  const std::string bias = fields.MaybeString("bias").value_or("none");
  if (bias != "none") fields.Fail("bias", "\"" + bias + "\" is not supported; \"none\" is");
  for (const char* key :
       {"modules_to_save", "fan_in_fan_out", "use_dora", "lora_bias", "exclude_modules",
        "layers_to_transform", "layers_pattern", "layer_replication", "trainable_token_indices",
        "use_qalora", "use_bdlora", "alora_invocation_tokens", "kasa_config", "monteclora_config",
        "velora_config", "arrow_config"}) {
    if (const nlohmann::json* value = fields.Find(key); Says(value)) {
      fields.Fail(key, "(" + DescribeJson(*value) + ") is not supported");
    }
  }
  // These change the base weights when the adapter is made, so that the saved one does not fit
  // them.
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init != nullptr && init->is_string()) {
    const std::string how = init->get<std::string>();
    if (how != "gaussian" && how != "orthogonal" && how != "eva") {
      fields.Fail("init_lora_weights", DescribeJson(*init) + " is not supported");
    }
  }
}

template <typename T, typename Check>
std::map<std::string, T> ReadPatterns(JsonFields& fields, const char* key, Check check) {
  std::map<std::string, T> patterns;
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr) return patterns;
  if (!value->is_object()) {
    fields.Fail(key, "must be an object, got " + DescribeJson(*value));
    return patterns;
  }
  for (const auto& [pattern, number] : value->items()) {
    if (!check(number)) {
      fields.Fail(
          key, "holds " + DescribeJson(number) + " for " + DescribeJson(nlohmann::json(pattern)));
      continue;
    }
    if (const auto regex = TextRegex::FromPcre2(pattern); !regex.ok()) {
      fields.Fail(key, regex.status().message());
    }
    patterns[pattern] = number.template get<T>();
  }
  return patterns;
}

void ReadTargets(JsonFields& fields, LoraConfig& config) {
  const nlohmann::json* target = fields.Find("target_modules");
  if (target != nullptr && target->is_string()) {
    config.target_pattern = target->get<std::string>();
    if (config.target_pattern.empty()) fields.Fail("target_modules", "is empty");
    if (config.target_pattern == kAllLinear) return;
    if (const auto regex = TextRegex::FromPcre2(config.target_pattern); !regex.ok()) {
      fields.Fail("target_modules", regex.status().message());
    }
    return;
  }
  config.target_modules = fields.Strings("target_modules");
  if (config.target_modules.empty() && !config.experts) {
    fields.Fail("target_modules", "must be a list of module names or a pattern");
  }
}

// PEFT adapts whole parameters by name too; here those of experts, both or none.
bool ReadExpertTargets(JsonFields& fields) {
  bool gate_up = false, down = false;
  for (const std::string& name : fields.Strings("target_parameters")) {
    gate_up = gate_up || EndsWithPart(name, "experts.gate_up_proj");
    down = down || EndsWithPart(name, "experts.down_proj");
    if (EndsWithPart(name, "experts.gate_up_proj") || EndsWithPart(name, "experts.down_proj")) {
      continue;
    }
    fields.Fail("target_parameters", "holds " + DescribeJson(nlohmann::json(name)) +
                                         "; only experts.gate_up_proj and experts.down_proj are "
                                         "supported");
  }
  if (gate_up != down) {
    fields.Fail("target_parameters",
                "must name experts.gate_up_proj and experts.down_proj, or none of them");
  }
  return gate_up && down;
}

bool IsRank(const nlohmann::json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 1 &&
         value.get<int64_t>() <= kLoraRankMax;
}

bool IsAlpha(const nlohmann::json& value) {
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1e9;
}

}  // namespace

bool LoraConfig::Targets(std::string_view module) const {
  if (target_pattern == kAllLinear) {
    // Every linear layer but the output.
    return module.ends_with("_proj");
  }
  if (!target_pattern.empty()) return FullMatch(target_pattern, module);
  for (const std::string& part : target_modules) {
    if (EndsWithPart(module, part)) return true;
  }
  return false;
}

int64_t LoraConfig::RankOf(std::string_view module) const {
  return ByPattern(rank_pattern, module, rank);
}

double LoraConfig::AlphaOf(std::string_view module) const {
  return ByPattern(alpha_pattern, module, alpha);
}

double LoraConfig::ScalingOf(std::string_view module) const {
  const auto r = static_cast<double>(RankOf(module));
  return AlphaOf(module) / (rslora ? std::sqrt(r) : r);
}

Result<LoraConfig> ParseLoraConfig(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(json, name));
  JsonFields fields(object, std::string(name) + ": ");
  RefuseUnsupported(fields);
  LoraConfig config;
  config.rank = fields.Int("r", 1, kLoraRankMax);
  config.alpha = fields.MaybeNumber("lora_alpha", 0.0, 1e9).value_or(8.0);
  config.dropout = fields.MaybeNumber("lora_dropout", 0.0, 1.0).value_or(0.0);
  config.rslora = fields.MaybeBool("use_rslora").value_or(false);
  config.base_model = fields.MaybeString("base_model_name_or_path").value_or("");
  config.experts = ReadExpertTargets(fields);
  ReadTargets(fields, config);
  config.rank_pattern = ReadPatterns<int64_t>(fields, "rank_pattern", IsRank);
  config.alpha_pattern = ReadPatterns<double>(fields, "alpha_pattern", IsAlpha);
  TM_RETURN_IF_ERROR(fields.status());
  return config;
}

Result<LoraConfig> ReadLoraConfig(const std::string& dir) {
  const std::string path = dir + "/adapter_config.json";
  TM_ASSIGN_OR_RETURN(const std::string json, ReadFileBounded(path, kConfigBytesMax));
  return ParseLoraConfig(json, path);
}

std::string LoraConfigJson(const LoraConfig& config) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["alpha_pattern"] =
      config.alpha_pattern.empty() ? Json::object() : Json(config.alpha_pattern);
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] =
      config.base_model.empty() ? Json(nullptr) : Json(config.base_model);
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  // PEFT's own files hold a whole number wherever it is one.
  const bool whole = config.alpha == std::floor(config.alpha);
  json["lora_alpha"] = whole ? Json(static_cast<int64_t>(config.alpha)) : Json(config.alpha);
  json["lora_dropout"] = config.dropout;
  json["modules_to_save"] = nullptr;
  json["peft_type"] = "LORA";
  json["r"] = config.rank;
  json["rank_pattern"] = config.rank_pattern.empty() ? Json::object() : Json(config.rank_pattern);
  json["revision"] = nullptr;
  json["target_modules"] =
      config.target_pattern.empty() ? Json(config.target_modules) : Json(config.target_pattern);
  if (config.experts) {
    json["target_parameters"] = {"mlp.experts.down_proj", "mlp.experts.gate_up_proj"};
  }
  json["task_type"] = "CAUSAL_LM";
  json["use_dora"] = false;
  json["use_rslora"] = config.rslora;
  return DumpJson(json);
}

Status WriteLoraConfig(const LoraConfig& config, const std::string& dir) {
  return WriteFileAtomically(dir + "/adapter_config.json", LoraConfigJson(config));
}

}  // namespace tidemill
