// As Qwen3, with experts in some or all layers.
#include <nlohmann/json.hpp>

#include "model/families/family_spec.h"
#include "model/families/window_fields.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kQwen3MoeWindow = 4096;

// Where "use_sliding_window" is true all layers have it; transformers reads no "layer_types" here.
void ReadQwen3Moe(JsonFields& fields, ModelConfig& config) {
  const std::optional<int64_t> window = ReadWindow(fields, kQwen3MoeWindow);
  if (!fields.MaybeBool("use_sliding_window").value_or(false) || !window) return;
  SetWindows(fields, std::vector<bool>(static_cast<size_t>(config.num_layers), true), window,
             config);
  ExpectLayerTypes(fields, config);
}

void WriteQwen3Moe(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["sliding_window"] = WindowJson(config);
  json["use_sliding_window"] = !config.windowed.empty();
}

}  // namespace

constinit const FamilySpec kQwen3MoeFamily = {
    .model_type = "qwen3_moe",
    .architecture = "Qwen3MoeForCausalLM",
    .layer = {.qk_norm = QueryKeyNorm::kByHead},
    .biases = BiasRule::kAsTold,
    .max_position_embeddings = 32768,
    .experts = {.has = true,
                .width_key = "moe_intermediate_size",
                .count = 128,
                .chosen = 8,
                .normalized = false,
                .told = true,
                .some = true},
    .gguf = {.architecture = "qwen3moe"},
    .read = ReadQwen3Moe,
    .write = WriteQwen3Moe,
};

}  // namespace tidemill
