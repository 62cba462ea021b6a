// Every tensor a model consists of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace tidemill {

// Every tensor a model of this config has, by its Hugging Face name (a tied head not), and its
// shape.
std::map<std::string, std::vector<int64_t>> ExpectedTensors(const ModelConfig& config);

}  // namespace tidemill
