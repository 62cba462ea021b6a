// An adapter's tensors as a GPU engine multiplies with them: one block in the layout of
// model/cuda/adapter_layout.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/status.h"
#include "model/cuda/adapter_layout.h"
#include "model/torch/lora.h"
#include "model/torch/model.h"

namespace tidemill {

AdapterRanks RanksOf(const LoraAdapter& adapter, const ModelConfig& config);

// In `type` on `device`; without an adapter it is zero, which changes nothing. kInvalid names the
// module that the layout has no room for.
Result<at::Tensor> AdapterBlock(const LoraAdapter* adapter, const ModelConfig& config,
                                const AdapterLayout& layout, const at::Device& device,
                                at::ScalarType type);

// Parts of such a block: A [rank, in] and B [out, rank] of a layer's product.
struct AdapterMatrices {
  at::Tensor a, b;
};
AdapterMatrices AdapterMatricesOf(const at::Tensor& block, const AdapterLayout& layout,
                                  int64_t layer, LayerProduct product);

}  // namespace tidemill
