#include "model/expected_tensors.h"

namespace tidemill {
namespace {

std::string DimensionsText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

TensorShapes ExpectedTensors(const ModelConfig& c) {
  TensorShapes expected;
  expected["model.embed_tokens.weight"] = {c.vocab_size, c.hidden_size};
  expected["model.norm.weight"] = {c.hidden_size};
  if (!c.tie_word_embeddings) expected["lm_head.weight"] = {c.vocab_size, c.hidden_size};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const auto linear = [&](const char* name, int64_t out, int64_t in, bool bias) {
      expected[layer + name + ".weight"] = {out, in};
      if (bias) expected[layer + name + ".bias"] = {out};
    };
    linear("self_attn.q_proj", c.q_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.k_proj", c.kv_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.v_proj", c.kv_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.o_proj", c.hidden_size, c.q_size(), c.output_bias);
    linear("mlp.gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    linear("mlp.up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    linear("mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    expected[layer + "input_layernorm.weight"] = {c.hidden_size};
    expected[layer + "post_attention_layernorm.weight"] = {c.hidden_size};
    if (c.qk_norm()) {
      expected[layer + "self_attn.q_norm.weight"] = {c.head_dim};
      expected[layer + "self_attn.k_norm.weight"] = {c.head_dim};
    }
  }
  return expected;
}

Status CheckTensorShapes(const ModelConfig& config, const TensorShapes& shapes) {
  const TensorShapes expected = ExpectedTensors(config);
  for (const auto& [name, shape] : expected) {
    const auto found = shapes.find(name);
    if (found == shapes.end()) return Invalid("tensor \"" + name + "\" is missing");
    if (found->second != shape) {
      return Invalid("tensor \"" + name + "\" has shape " + DimensionsText(found->second) +
                     ", the config requires " + DimensionsText(shape));
    }
  }
  for (const auto& [name, shape] : shapes) {
    if (!expected.contains(name)) {
      return Invalid("tensor \"" + name + "\" does not belong to a " +
                     std::string(ModelFamilyName(config.family)) + " model of this config");
    }
  }
  return Ok();
}

bool IsSpareTensor(const ModelConfig& config, std::string_view name) {
  return (config.tie_word_embeddings && name == "lm_head.weight") ||
         name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace tidemill
