// The shape of a policy for tests.
#pragma once

#include "model/model_config.h"

namespace tidemill {

// What models of a family have besides their sizes, which stand already. Windows are shorter than
// the sequences of tests.
inline void TakeFormOf(ModelFamily family, ModelConfig& c) {
  c.family = family;
  c.qkv_bias = family == ModelFamily::kQwen2;
  const auto layers = static_cast<size_t>(c.num_layers);
  if (family == ModelFamily::kMistral) {
    c.window = 11;
    c.windowed.assign(layers, true);
  }
  if (family == ModelFamily::kGemma3) {
    c.window = 7;
    c.windowed.assign(layers, true);
    c.windowed.back() = false;
    c.rope.theta = 1e6;
    c.local_rope = RopeConfig{};
    c.query_scalar = 5;
    c.activation = Activation::kGeluTanh;
  }
  if (family == ModelFamily::kQwen3Moe) {
    c.experts = {.count = 6, .chosen = 3, .width = 12};
    c.experts.layers.assign(layers, true);
    c.experts.layers.front() = layers == 1;
  }
  if (family == ModelFamily::kMixtral) {
    c.window = 11;
    c.windowed.assign(layers, true);
    c.experts = {.count = 4, .chosen = 2, .width = c.intermediate_size, .normalized = true};
    c.experts.layers.assign(layers, true);
  }
}

inline ModelConfig TinyConfig(ModelFamily family = ModelFamily::kQwen2) {
  ModelConfig c;
  c.vocab_size = 37;
  c.hidden_size = 32;
  c.intermediate_size = 56;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 8;
  c.max_position_embeddings = 128;
  c.tie_word_embeddings = true;
  TakeFormOf(family, c);
  return c;
}

}  // namespace tidemill
