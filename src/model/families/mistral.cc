// As Llama without biases, and usually with a window on every layer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/families/family_spec.h"
#include "model/families/window_fields.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kMistralWindow = 4096;

void ReadMistral(JsonFields& fields, ModelConfig& config) {
  const std::optional<int64_t> window = ReadWindow(fields, kMistralWindow);
  std::vector<bool> windowed(static_cast<size_t>(config.num_layers), window.has_value());
  if (const auto listed = ReadLayerTypes(fields, config.num_layers)) windowed = *listed;
  SetWindows(fields, windowed, window, config);
}

void WriteMistral(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["sliding_window"] = WindowJson(config);
  const auto& windowed = config.windowed;
  if (std::find(windowed.begin(), windowed.end(), false) != windowed.end()) {
    json["layer_types"] = LayerTypesJson(config);
  }
}

}  // namespace

// llama.cpp's converter writes these models as "llama".
constinit const FamilySpec kMistralFamily = {
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .max_position_embeddings = 131072,
    .read = ReadMistral,
    .write = WriteMistral,
};

}  // namespace tidemill
