// Where each tensor of a model lies in the one block of memory a GPU engine keeps its weights in.
// Matrices that are multiplied together lie together (q, k and v; gate and up). Whoever publishes
// weights in this very layout has them taken over by one copy.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace tidemill {

struct WeightPlace {
  std::string name;  // Hugging Face's
  size_t first = 0;  // in numbers, not bytes
  std::vector<int64_t> shape;
  size_t numbers() const {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return count;
  }
};

struct WeightLayout {
  std::vector<WeightPlace> places;
  size_t numbers = 0;

  // The place of a tensor the model has.
  const WeightPlace& Of(const std::string& name) const;
};

WeightLayout MakeWeightLayout(const ModelConfig& config);

}  // namespace tidemill
