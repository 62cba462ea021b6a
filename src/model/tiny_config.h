// The shape of a policy for tests.
#pragma once

#include "model/model_config.h"

namespace tidemill {

inline ModelConfig TinyConfig(ModelFamily family = ModelFamily::kQwen2) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 37;
  c.hidden_size = 32;
  c.intermediate_size = 56;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 8;
  c.max_position_embeddings = 128;
  c.tie_word_embeddings = true;
  c.qkv_bias = family == ModelFamily::kQwen2;
  return c;
}

}  // namespace tidemill
