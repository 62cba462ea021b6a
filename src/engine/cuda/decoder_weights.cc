#include "engine/cuda/decoder_weights.h"

#include <string>

namespace tidemill {

DecoderWeights PlaceWeights(const ModelConfig& config, const WeightLayout& layout,
                            const void* block, size_t number_bytes) {
  const auto at = [&](const std::string& name) -> const void* {
    return static_cast<const char*>(block) + layout.Of(name).first * number_bytes;
  };
  DecoderWeights weights;
  weights.embed = at("model.embed_tokens.weight");
  weights.head = config.tie_word_embeddings ? weights.embed : at("lm_head.weight");
  weights.norm = at("model.norm.weight");
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    const auto where = [&](bool there, const char* name) { return there ? at(p + name) : nullptr; };
    weights.layers.push_back({.input_norm = at(p + "input_layernorm.weight"),
                              .post_norm = at(p + "post_attention_layernorm.weight"),
                              .q_norm = where(config.qk_norm(), "self_attn.q_norm.weight"),
                              .k_norm = where(config.qk_norm(), "self_attn.k_norm.weight"),
                              .products = {{{at(p + "self_attn.q_proj.weight"),
                                             where(config.qkv_bias, "self_attn.q_proj.bias")},
                                            {at(p + "self_attn.o_proj.weight"), nullptr},
                                            {at(p + "mlp.gate_proj.weight"),
                                             where(config.mlp_bias, "mlp.gate_proj.bias")},
                                            {at(p + "mlp.down_proj.weight"), nullptr}}},
                              .o_bias = where(config.output_bias, "self_attn.o_proj.bias"),
                              .down_bias = where(config.mlp_bias, "mlp.down_proj.bias")});
  }
  return weights;
}

}  // namespace tidemill
