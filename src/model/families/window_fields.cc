#include "model/families/window_fields.h"

#include <algorithm>

#include "model/families/rope_fields.h"
#include "model/json_fields.h"

namespace tidemill {

std::optional<std::vector<bool>> ReadLayerTypes(JsonFields& fields, int64_t layers) {
  if (!fields.Has("layer_types")) return std::nullopt;
  std::vector<bool> windowed;
  for (const std::string& type : fields.Strings("layer_types")) {
    windowed.push_back(type == "sliding_attention");
    if (type == "sliding_attention" || type == "full_attention") continue;
    fields.Fail("layer_types", "holds " + DescribeJson(type) +
                                   "; only full_attention and sliding_attention are supported");
  }
  if (windowed.size() != static_cast<size_t>(layers)) {
    fields.Fail("layer_types", "must name each of the " + std::to_string(layers) +
                                   " layers, got a list of " + std::to_string(windowed.size()));
  }
  return windowed;
}

std::optional<int64_t> ReadWindow(JsonFields& fields, std::optional<int64_t> otherwise) {
  const std::optional<int64_t> window = fields.MaybeInt("sliding_window", 0, kPositionsMax);
  if (window || fields.Present("sliding_window")) return window;
  return otherwise;
}

void SetWindows(JsonFields& fields, const std::vector<bool>& windowed,
                std::optional<int64_t> window, ModelConfig& config) {
  if (std::find(windowed.begin(), windowed.end(), true) == windowed.end()) return;
  if (window.value_or(0) < 1) {
    fields.Fail("sliding_window", "must be 1 or more where a layer has a window, got " +
                                      (window ? std::to_string(*window) : std::string("null")));
    return;
  }
  config.window = *window;
  config.windowed = windowed;
}

void ExpectLayerTypes(JsonFields& fields, const ModelConfig& config) {
  const auto listed = ReadLayerTypes(fields, config.num_layers);
  if (!listed || *listed == config.windowed) return;
  fields.Fail("layer_types", "names layers without the window that \"sliding_window\" gives all");
}

nlohmann::ordered_json LayerTypesJson(const ModelConfig& config) {
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < config.num_layers; ++i) {
    types.push_back(config.HasWindow(i) ? "sliding_attention" : "full_attention");
  }
  return types;
}

nlohmann::ordered_json WindowJson(const ModelConfig& config) {
  if (config.windowed.empty()) return nullptr;
  return config.window;
}

}  // namespace tidemill
