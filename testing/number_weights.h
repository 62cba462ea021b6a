// A number in the place of weights, for tests of what carries them and never looks inside.
#pragma once

#include <cstdint>
#include <memory>

#include "weights/weight_channel.h"

namespace tidemill {

class NumberWeights final : public Weights {
 public:
  explicit NumberWeights(uint64_t n) : number(n) {}
  uint64_t number;
};

inline uint64_t NumberIn(const std::shared_ptr<const Weights>& weights) {
  return dynamic_cast<const NumberWeights&>(*weights).number;
}

inline PublishedWeights NumberVersion(uint64_t version) {
  return {.version = version, .step = version, .weights = std::make_shared<NumberWeights>(version)};
}

}  // namespace tidemill
