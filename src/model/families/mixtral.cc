// As Mistral, with experts in every layer.
#include <nlohmann/json.hpp>

#include "model/families/family_spec.h"
#include "model/families/window_fields.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

void ReadMixtral(JsonFields& fields, ModelConfig& config) {
  const std::optional<int64_t> window = ReadWindow(fields, std::nullopt);
  if (!window) return;
  SetWindows(fields, std::vector<bool>(static_cast<size_t>(config.num_layers), true), window,
             config);
  ExpectLayerTypes(fields, config);
}

void WriteMixtral(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["router_jitter_noise"] = 0.0;
  json["sliding_window"] = WindowJson(config);
}

}  // namespace

// llama.cpp's converter writes these models as "llama", with experts.
constinit const FamilySpec kMixtralFamily = {
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .layer = {.experts = {.router = "block_sparse_moe.gate",
                          .experts = "block_sparse_moe.experts",
                          .gate = "w1",
                          .up = "w3",
                          .down = "w2"}},
    .max_position_embeddings = 131072,
    .rope_theta = 1e6,
    .rms_norm_eps = 1e-5,
    .experts = {.has = true},
    .gguf = {.neighbours = true},
    .read = ReadMixtral,
    .write = WriteMixtral,
};

}  // namespace tidemill
