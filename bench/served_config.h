// The shape of the small model that serving is measured with: 2 layers of width 64.
#pragma once

#include <cstdint>

#include "model/model_config.h"

namespace tidemill {

inline ModelConfig ServedConfig(int64_t vocabulary) {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = vocabulary;
  config.hidden_size = 64;
  config.intermediate_size = 176;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 4;
  config.head_dim = 16;
  config.max_position_embeddings = 32768;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  return config;
}

}  // namespace tidemill
