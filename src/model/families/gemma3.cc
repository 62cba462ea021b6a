// The text model of Gemma 3: layers with a window and layers that see everything, each kind with
// its rotation; norms before and behind attention and the feed-forward layers.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/family_spec.h"
#include "model/families/window_fields.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kGemma3Window = 4096;
constexpr int64_t kGemma3Pattern = 6;
constexpr double kGemma3QueryScalar = 256;

// Every `pattern`-th layer sees everything.
std::vector<bool> Gemma3Layers(int64_t layers, int64_t pattern) {
  std::vector<bool> windowed;
  for (int64_t i = 0; i < layers; ++i) windowed.push_back((i + 1) % pattern != 0);
  return windowed;
}

void ReadGemma3(JsonFields& fields, ModelConfig& config) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const nlohmann::json* cap = fields.Find(key)) {
      fields.Fail(key, "is " + DescribeJson(*cap) + ": soft caps are not supported");
    }
  }
  if (fields.MaybeBool("use_bidirectional_attention").value_or(false)) {
    fields.Fail("use_bidirectional_attention", "is true: only causal attention is supported");
  }
  config.query_scalar =
      fields.MaybeNumber("query_pre_attn_scalar", 1e-3, 1e9).value_or(kGemma3QueryScalar);
  // Some writers put an underscore before it.
  std::optional<int64_t> pattern = fields.MaybeInt("sliding_window_pattern", 1, 1 << 20);
  if (!pattern) pattern = fields.MaybeInt("_sliding_window_pattern", 1, 1 << 20);
  const auto listed = ReadLayerTypes(fields, config.num_layers);
  SetWindows(fields,
             listed ? *listed : Gemma3Layers(config.num_layers, pattern.value_or(kGemma3Pattern)),
             ReadWindow(fields, kGemma3Window), config);
}

void WriteGemma3(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["attn_logit_softcapping"] = nullptr;
  json["final_logit_softcapping"] = nullptr;
  json["layer_types"] = LayerTypesJson(config);
  const double scalar = config.query_scalar;
  const bool whole = scalar == std::floor(scalar);
  json["query_pre_attn_scalar"] =
      whole ? nlohmann::ordered_json(static_cast<int64_t>(scalar)) : nlohmann::ordered_json(scalar);
  json["sliding_window"] = WindowJson(config);
  // What older readers know instead of the list, where it can be said so.
  for (int64_t pattern = 1; pattern <= config.num_layers + 1; ++pattern) {
    const std::vector<bool> windowed = Gemma3Layers(config.num_layers, pattern);
    const bool none = config.windowed.empty() && pattern == 1;
    if (!none && windowed != config.windowed) continue;
    json["sliding_window_pattern"] = pattern;
    break;
  }
}

}  // namespace

constinit const FamilySpec kGemma3Family = {
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .layer = {.attention_in = "input_layernorm",
              .attention_out = "post_attention_layernorm",
              .mlp_in = "pre_feedforward_layernorm",
              .mlp_out = "post_feedforward_layernorm",
              .qk_norm = QueryKeyNorm::kByHead},
    .norm_offset = 1,
    .scales_embeddings = true,
    .biases = BiasRule::kAsTold,
    .max_position_embeddings = 131072,
    .head_dim = 256,
    .rope_theta = 1e6,
    .local_rope_theta = 1e4,
    .tied = true,
    .activation_key = "hidden_activation",
    .activation = Activation::kGeluTanh,
    .gguf = {.architecture = "gemma3",
             .refused = "does not say what queries are scaled by nor which layers have a window"},
    .read = ReadGemma3,
    .write = WriteGemma3,
};

}  // namespace tidemill
