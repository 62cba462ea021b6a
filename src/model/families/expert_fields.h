// Experts in config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_config.h"

namespace tidemill {

class JsonFields;

// "num_experts" or "num_local_experts", "num_experts_per_tok", and what else the family has
// (ExpertForm). `config` has its family and its sizes.
void ReadExperts(JsonFields& fields, ModelConfig& config);
// Both spellings of their number.
void WriteExperts(const ModelConfig& config, nlohmann::ordered_json& json);
// kInvalid names the field that does not fit the family or the others.
Status CheckExperts(const ModelConfig& config, const std::string& where);

}  // namespace tidemill
