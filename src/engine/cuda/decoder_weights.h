// Where the matrices of a decoder lie in its block of weights.
#pragma once

#include <vector>

#include "model/cuda/weight_layout.h"
#include "model/model_config.h"

namespace tidemill {

// Null where the model has none.
struct DecoderLayer {
  const void *input_norm, *post_norm, *qkv, *qkv_bias, *q_norm, *k_norm, *o, *o_bias, *gate_up,
      *gate_up_bias, *down, *down_bias;
};

struct DecoderWeights {
  const void *embed = nullptr, *head = nullptr, *norm = nullptr;
  std::vector<DecoderLayer> layers;
};

// `number_bytes`: of a number in the block.
DecoderWeights PlaceWeights(const ModelConfig& config, const WeightLayout& layout,
                            const void* block, size_t number_bytes);

}  // namespace tidemill
