#include "model/expected_tensors.h"

#include <utility>

#include "model/layer_plan.h"

namespace tidemill {
namespace {

std::string DimensionsText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

TensorShapes ExpectedTensors(const ModelConfig& config) {
  TensorShapes expected;
  for (PlannedTensor& tensor : PlanTensors(config)) {
    expected.emplace(std::move(tensor.name), std::move(tensor.shape));
  }
  return expected;
}

Status CheckTensorShapes(const ModelConfig& config, const TensorShapes& shapes) {
  const TensorShapes expected = ExpectedTensors(config);
  for (const auto& [name, shape] : expected) {
    const auto found = shapes.find(name);
    if (found == shapes.end()) return Invalid("tensor \"" + name + "\" is missing");
    if (found->second != shape) {
      return Invalid("tensor \"" + name + "\" has shape " + DimensionsText(found->second) +
                     ", the config requires " + DimensionsText(shape));
    }
  }
  for (const auto& [name, shape] : shapes) {
    if (!expected.contains(name)) {
      return Invalid("tensor \"" + name + "\" does not belong to a " +
                     std::string(ModelFamilyName(config.family)) + " model of this config");
    }
  }
  return Ok();
}

bool IsSpareTensor(const ModelConfig& config, std::string_view name) {
  return (config.tie_word_embeddings && name == "lm_head.weight") ||
         name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace tidemill
