#include "model/families/qwen_windows.h"

#include "model/families/window_fields.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kQwenWindow = 4096;
constexpr int64_t kQwenFullLayers = 28;

}  // namespace

void ReadQwenWindows(JsonFields& fields, ModelConfig& config) {
  const bool used = fields.MaybeBool("use_sliding_window").value_or(false);
  const std::optional<int64_t> window = ReadWindow(fields, kQwenWindow);
  const int64_t full = fields.MaybeInt("max_window_layers", 0, 1 << 20).value_or(kQwenFullLayers);
  if (!used) return;
  std::vector<bool> windowed;
  for (int64_t i = 0; i < config.num_layers; ++i) windowed.push_back(window && i >= full);
  if (const auto listed = ReadLayerTypes(fields, config.num_layers)) windowed = *listed;
  SetWindows(fields, windowed, window, config);
}

void WriteQwenWindows(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["use_sliding_window"] = !config.windowed.empty();
  if (config.windowed.empty()) return;
  json["layer_types"] = LayerTypesJson(config);
  json["max_window_layers"] = 0;
  json["sliding_window"] = WindowJson(config);
}

}  // namespace tidemill
