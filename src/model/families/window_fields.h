// Sliding windows in config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "model/model_config.h"

namespace tidemill {

class JsonFields;

// Which layers have a window by "layer_types"; nothing: there is no such list.
std::optional<std::vector<bool>> ReadLayerTypes(JsonFields& fields, int64_t layers);
// "sliding_window"; null, and only that, is none.
std::optional<int64_t> ReadWindow(JsonFields& fields, std::optional<int64_t> otherwise);
// Gives the layers named their window. A failure where there are such, and no window.
void SetWindows(JsonFields& fields, const std::vector<bool>& windowed,
                std::optional<int64_t> window, ModelConfig& config);

// A failure where "layer_types" is there and says anything else than the windows of `config`, for
// families whose models do not go by it.
void ExpectLayerTypes(JsonFields& fields, const ModelConfig& config);

// A list of "sliding_attention" and "full_attention".
nlohmann::ordered_json LayerTypesJson(const ModelConfig& config);
// The window, or null.
nlohmann::ordered_json WindowJson(const ModelConfig& config);

}  // namespace tidemill
