// Every tensor a model consists of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/model_config.h"

namespace tidemill {

using TensorShapes = std::map<std::string, std::vector<int64_t>>;

// Every tensor a model of this config has, by its Hugging Face name (a tied head not), and its
// shape.
TensorShapes ExpectedTensors(const ModelConfig& config);

// kInvalid names the tensor that is missing, too many or of another shape.
Status CheckTensorShapes(const ModelConfig& config, const TensorShapes& shapes);

// Tensors that other writers leave in a file and nothing here needs.
bool IsSpareTensor(const ModelConfig& config, std::string_view name);

}  // namespace tidemill
