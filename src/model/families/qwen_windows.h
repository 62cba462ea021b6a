// The sliding windows of Qwen2 and Qwen3: on the layers behind the first "max_window_layers", where
// "use_sliding_window" is true.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/model_config.h"

namespace tidemill {

class JsonFields;

void ReadQwenWindows(JsonFields& fields, ModelConfig& config);
void WriteQwenWindows(const ModelConfig& config, nlohmann::ordered_json& json);

}  // namespace tidemill
