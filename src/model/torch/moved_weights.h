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
    const at::NoGradGuard no_grad;
    NamedTensors moved;
    for (const auto& [name, tensor] : weights->tensors()) {
      // One at a time: of merged weights in their own type there is never a whole set.
      const at::Tensor value = MergedTensor(*weights, name);
      moved.emplace(name, value.detach().to(at::Device(device), type, false, true));
    }
    return PolicyWeights::FromTensors(weights->config(), std::move(moved));
  });
}

}  // namespace tidemill
