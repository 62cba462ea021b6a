// Weights on another device or in another type.
#pragma once

#include "model/torch/aten.h"

#include <memory>
#include <string>

#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {

// A copy of all tensors; an adapter is merged.
inline Result<std::shared_ptr<const PolicyWeights>> MovedWeights(
    const std::shared_ptr<const PolicyWeights>& weights, const std::string& device,
    at::ScalarType type) {
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("moving weights to " + device, [&]() -> Result<Made> {
    TM_ASSIGN_OR_RETURN(const Made merged, PolicyWeights::Merged(weights));
    NamedTensors moved;
    for (const auto& [name, tensor] : merged->tensors()) {
      moved.emplace(name, tensor.detach().to(at::Device(device), type, false, true));
    }
    return PolicyWeights::FromTensors(merged->config(), std::move(moved));
  });
}

}  // namespace tidemill
