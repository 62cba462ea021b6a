#include "model/cuda/weight_layout.h"

#include <algorithm>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kAlignment = 128;  // numbers: 256 bytes or more

class Layout {
 public:
  void Place(const std::string& name, std::vector<int64_t> shape) {
    layout_.places.push_back({name, layout_.numbers, std::move(shape)});
    layout_.numbers += layout_.places.back().numbers();
  }
  // What follows need not lie right behind.
  void Align() { layout_.numbers = (layout_.numbers + kAlignment - 1) / kAlignment * kAlignment; }
  WeightLayout Take() {
    Align();
    return std::move(layout_);
  }

 private:
  WeightLayout layout_;
};

void PlaceLayer(const ModelConfig& c, int64_t index, Layout& layout) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const auto one = [&](const char* name, std::vector<int64_t> shape) {
    layout.Place(prefix + name, std::move(shape));
    layout.Align();
  };
  one("input_layernorm.weight", {c.hidden_size});
  const std::string attention = prefix + "self_attn.";
  layout.Place(attention + "q_proj.weight", {c.q_size(), c.hidden_size});
  layout.Place(attention + "k_proj.weight", {c.kv_size(), c.hidden_size});
  layout.Place(attention + "v_proj.weight", {c.kv_size(), c.hidden_size});
  layout.Align();
  if (c.qkv_bias) {
    layout.Place(attention + "q_proj.bias", {c.q_size()});
    layout.Place(attention + "k_proj.bias", {c.kv_size()});
    layout.Place(attention + "v_proj.bias", {c.kv_size()});
    layout.Align();
  }
  if (c.qk_norm()) {
    one("self_attn.q_norm.weight", {c.head_dim});
    one("self_attn.k_norm.weight", {c.head_dim});
  }
  one("self_attn.o_proj.weight", {c.hidden_size, c.q_size()});
  if (c.output_bias) one("self_attn.o_proj.bias", {c.hidden_size});
  one("post_attention_layernorm.weight", {c.hidden_size});
  layout.Place(prefix + "mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size});
  layout.Place(prefix + "mlp.up_proj.weight", {c.intermediate_size, c.hidden_size});
  layout.Align();
  if (c.mlp_bias) {
    layout.Place(prefix + "mlp.gate_proj.bias", {c.intermediate_size});
    layout.Place(prefix + "mlp.up_proj.bias", {c.intermediate_size});
    layout.Align();
  }
  one("mlp.down_proj.weight", {c.hidden_size, c.intermediate_size});
  if (c.mlp_bias) one("mlp.down_proj.bias", {c.hidden_size});
}

}  // namespace

const WeightPlace& WeightLayout::Of(const std::string& name) const {
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const WeightPlace& place) { return place.name == name; });
  TM_CHECK(found != places.end(), name);
  return *found;
}

WeightLayout MakeWeightLayout(const ModelConfig& c) {
  Layout layout;
  layout.Place("model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  layout.Align();
  for (int64_t i = 0; i < c.num_layers; ++i) PlaceLayer(c, i, layout);
  layout.Place("model.norm.weight", {c.hidden_size});
  layout.Align();
  if (!c.tie_word_embeddings) layout.Place("lm_head.weight", {c.vocab_size, c.hidden_size});
  return layout.Take();
}

}  // namespace tidemill
