#include "engine/cuda/decoder_weights.h"

#include <string>

#include "model/layer_plan.h"

namespace tidemill {

DecoderWeights PlaceWeights(const ModelConfig& config, const WeightLayout& layout,
                            const void* block, size_t number_bytes) {
  const auto at = [&](const std::string& name) -> const void* {
    return static_cast<const char*>(block) + layout.Of(name).first * number_bytes;
  };
  const DecoderPlan plan = PlanDecoder(config);
  DecoderWeights weights;
  weights.embed = at("model.embed_tokens.weight");
  weights.head = plan.tied ? weights.embed : at("lm_head.weight");
  weights.norm = at("model.norm.weight");
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const LayerPlan& layer = plan.layers[static_cast<size_t>(i)];
    const auto where = [&](bool there, std::string_view name) {
      return there ? at(LayerName(i, name)) : nullptr;
    };
    const auto norm = [&](std::string_view name) {
      return name.empty() ? nullptr : at(LayerName(i, name) + ".weight");
    };
    const bool qk = layer.qk_norm != QueryKeyNorm::kNone;
    weights.layers.push_back({.attention_in = norm(layer.attention_in),
                              .attention_out = norm(layer.attention_out),
                              .mlp_in = norm(layer.mlp_in),
                              .mlp_out = norm(layer.mlp_out),
                              .q_norm = where(qk, "self_attn.q_norm.weight"),
                              .k_norm = where(qk, "self_attn.k_norm.weight"),
                              .products = {{{where(true, "self_attn.q_proj.weight"),
                                             where(layer.qkv_bias, "self_attn.q_proj.bias")},
                                            {where(true, "self_attn.o_proj.weight"), nullptr},
                                            {where(true, "mlp.gate_proj.weight"),
                                             where(layer.mlp_bias, "mlp.gate_proj.bias")},
                                            {where(true, "mlp.down_proj.weight"), nullptr}}},
                              .o_bias = where(layer.output_bias, "self_attn.o_proj.bias"),
                              .down_bias = where(layer.mlp_bias, "mlp.down_proj.bias")});
  }
  return weights;
}

}  // namespace tidemill
