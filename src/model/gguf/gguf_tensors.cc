#include "model/gguf/gguf_tensors.h"

#include <cstring>
#include <map>

namespace tidemill {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

class TensorPlanner {
 public:
  TensorPlanner(const ModelConfig& config, const std::vector<GgufTensor>& tensors, std::string name)
      : config_(config), name_(std::move(name)) {
    for (const GgufTensor& tensor : tensors) {
      if (left_.emplace(tensor.name, &tensor).second || !status_.ok()) continue;
      status_ = Invalid(name_ + ": tensor \"" + tensor.name + "\" comes in two of its parts");
    }
  }

  Result<std::vector<GgufTensorPlan>> Plan() {
    left_.erase("rope_freqs.weight");  // part of the config
    Add("token_embd.weight", "model.embed_tokens.weight",
        {config_.vocab_size, config_.hidden_size});
    if (!config_.tie_word_embeddings) {
      Add("output.weight", "lm_head.weight", {config_.vocab_size, config_.hidden_size});
    }
    for (int64_t layer = 0; layer < config_.num_layers && status_.ok(); ++layer) Layer(layer);
    Add("output_norm.weight", "model.norm.weight", {config_.hidden_size});
    TM_RETURN_IF_ERROR(status_);
    if (!left_.empty()) {
      return Invalid(name_ + ": tensor \"" + left_.begin()->first + "\" is not known");
    }
    return std::move(plans_);
  }

 private:
  void Add(const std::string& gguf, std::string ours, std::vector<int64_t> shape,
           int64_t rotary_heads = 0) {
    if (!status_.ok()) return;
    const auto it = left_.find(gguf);
    if (it == left_.end()) {
      status_ = Invalid(name_ + ": tensor \"" + gguf + "\" is missing");
      return;
    }
    if (it->second->shape != shape) {
      status_ = Invalid(name_ + ": tensor \"" + gguf + "\" must be " + ShapeText(shape) + ", is " +
                        ShapeText(it->second->shape));
      return;
    }
    plans_.push_back({it->second, std::move(ours), std::move(shape), rotary_heads});
    left_.erase(it);
  }

  struct Linear {
    const char* gguf;
    const char* ours;
    int64_t rows;
    int64_t columns;
    bool bias = false;
    int64_t rotary_heads = 0;
  };

  void Layer(int64_t layer) {
    const std::string from = "blk." + std::to_string(layer) + ".";
    const std::string to = "model.layers." + std::to_string(layer) + ".";
    const int64_t hidden = config_.hidden_size;
    const int64_t inner = config_.intermediate_size;
    // llama.cpp rotates neighbours, transformers the two halves of a head; only for this family
    // does the converter reorder the rows.
    const bool reordered = config_.family == ModelFamily::kLlama;
    const Linear linears[] = {
        {"attn_q", "self_attn.q_proj", config_.q_size(), hidden, config_.qkv_bias,
         reordered ? config_.num_heads : 0},
        {"attn_k", "self_attn.k_proj", config_.kv_size(), hidden, config_.qkv_bias,
         reordered ? config_.num_kv_heads : 0},
        {"attn_v", "self_attn.v_proj", config_.kv_size(), hidden, config_.qkv_bias},
        {"attn_output", "self_attn.o_proj", hidden, config_.q_size(), config_.output_bias},
        {"ffn_gate", "mlp.gate_proj", inner, hidden, config_.mlp_bias},
        {"ffn_up", "mlp.up_proj", inner, hidden, config_.mlp_bias},
        {"ffn_down", "mlp.down_proj", hidden, inner, config_.mlp_bias},
    };
    for (const Linear& l : linears) {
      Add(from + l.gguf + ".weight", to + l.ours + ".weight", {l.rows, l.columns}, l.rotary_heads);
      if (l.bias) Add(from + l.gguf + ".bias", to + l.ours + ".bias", {l.rows}, l.rotary_heads);
    }
    if (config_.qk_norm()) {
      Add(from + "attn_q_norm.weight", to + "self_attn.q_norm.weight", {config_.head_dim});
      Add(from + "attn_k_norm.weight", to + "self_attn.k_norm.weight", {config_.head_dim});
    }
    Add(from + "attn_norm.weight", to + "input_layernorm.weight", {hidden});
    Add(from + "ffn_norm.weight", to + "post_attention_layernorm.weight", {hidden});
  }

  const ModelConfig& config_;
  std::string name_;
  std::map<std::string, const GgufTensor*> left_;
  std::vector<GgufTensorPlan> plans_;
  Status status_;
};

}  // namespace

Result<std::vector<GgufTensorPlan>> PlanGgufTensors(const ModelConfig& config,
                                                    const std::vector<GgufTensor>& tensors,
                                                    const std::string& name) {
  return TensorPlanner(config, tensors, name).Plan();
}

Status FillTensor(const GgufTensorPlan& plan, Dtype dtype, std::span<std::byte> out) {
  const int64_t elements = plan.source->elements();
  const int64_t rows = plan.rotary_heads > 0 || plan.shape.size() > 1 ? plan.shape[0] : 1;
  const auto columns = static_cast<size_t>(elements / rows);
  const int64_t head = plan.rotary_heads > 0 ? rows / plan.rotary_heads : 1;
  if (columns % GgmlBlockOf(plan.source->type).elements != 0) {
    return Invalid("tensor \"" + plan.source->name + "\" has rows that are no whole blocks");
  }
  const size_t row_bytes = plan.source->data.size() / static_cast<size_t>(rows);
  std::vector<float> numbers(columns);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = row;
    if (plan.rotary_heads > 0) {
      // Of a head's rows 0, 1, .. the first halves of the pairs stand at 0, 2, .., the others at 1,
      // 3, ..
      const int64_t in_head = row % head;
      from = row - in_head + (in_head % (head / 2)) * 2 + in_head / (head / 2);
    }
    Dequantise(plan.source->type,
               plan.source->data.substr(static_cast<size_t>(from) * row_bytes, row_bytes), numbers);
    if (dtype == Dtype::kF32) {
      std::memcpy(out.data() + static_cast<size_t>(row) * columns * sizeof(float), numbers.data(),
                  columns * sizeof(float));
      continue;
    }
    for (size_t i = 0; i < columns; ++i) {
      const uint16_t narrow = ToBfloat16(numbers[i]);
      std::memcpy(out.data() + (static_cast<size_t>(row) * columns + i) * sizeof(narrow), &narrow,
                  sizeof(narrow));
    }
  }
  return Ok();
}

}  // namespace tidemill
