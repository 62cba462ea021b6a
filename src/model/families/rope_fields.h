// Rotary position embedding in config.json, in both of its spellings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_config.h"

namespace tidemill {

class JsonFields;

// More than any model has.
inline constexpr int64_t kPositionsMax = int64_t{1} << 26;

// "rope_parameters", or the older "rope_theta" with "rope_scaling"; for families whose layers with
// a window have a rotation of their own, that too. `config` has its family and its sizes.
void ReadRopes(JsonFields& fields, const std::string& where, ModelConfig& config);
// Both spellings.
void WriteRopes(const ModelConfig& config, nlohmann::ordered_json& json);

}  // namespace tidemill
