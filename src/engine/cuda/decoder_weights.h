// Where the matrices of a decoder lie in its block of weights.
#pragma once

#include <array>
#include <vector>

#include "model/cuda/adapter_layout.h"
#include "model/cuda/weight_layout.h"
#include "model/model_config.h"

namespace tidemill {

// Null where the model has none.
struct DecoderLayer {
  struct Product {
    const void *weight, *bias;  // the bias of the product itself
  };
  const void *attention_in, *attention_out, *mlp_in, *mlp_out, *q_norm, *k_norm;
  std::array<Product, kLayerProducts> products;
  const void *o_bias, *down_bias;  // added where the products are next read

  const Product& Of(LayerProduct product) const { return products[static_cast<size_t>(product)]; }
};

struct DecoderWeights {
  const void *embed = nullptr, *head = nullptr, *norm = nullptr;
  std::vector<DecoderLayer> layers;
};

// `number_bytes`: of a number in the block.
DecoderWeights PlaceWeights(const ModelConfig& config, const WeightLayout& layout,
                            const void* block, size_t number_bytes);

}  // namespace tidemill
