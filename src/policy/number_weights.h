// A number in the place of weights, for tests of what carries them and never looks inside. Not to
// be linked with policy/torch, where the real ones are.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/weight_channel.h"

namespace tidemill {

class PolicyWeights {
 public:
  explicit PolicyWeights(uint64_t n) : number(n) {}
  uint64_t number;
};

inline PublishedWeights NumberVersion(uint64_t version) {
  return {.version = version, .step = version, .weights = std::make_shared<PolicyWeights>(version)};
}

}  // namespace tidemill
