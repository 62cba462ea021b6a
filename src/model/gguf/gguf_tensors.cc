#include "model/gguf/gguf_tensors.h"

#include <cstring>
#include <map>

#include "model/expected_tensors.h"
#include "model/families/family_spec.h"

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
      : config_(config),
        decoder_(PlanDecoder(config)),
        shapes_(ExpectedTensors(config)),
        neighbours_(SpecOf(config.family).gguf.neighbours),
        name_(std::move(name)) {
    for (const GgufTensor& tensor : tensors) {
      if (left_.emplace(tensor.name, &tensor).second || !status_.ok()) continue;
      status_ = Invalid(name_ + ": tensor \"" + tensor.name + "\" comes in two of its parts");
    }
  }

  Result<std::vector<GgufTensorPlan>> Plan() {
    left_.erase("rope_freqs.weight");  // part of the config
    const auto whole = [&](const char* gguf, const char* ours) {
      if (const auto shape = shapes_.find(ours); shape != shapes_.end())
        Add(gguf, ours, shape->second);
    };
    whole("token_embd.weight", "model.embed_tokens.weight");
    whole("output.weight", "lm_head.weight");
    for (int64_t layer = 0; layer < config_.num_layers && status_.ok(); ++layer) Layer(layer);
    whole("output_norm.weight", "model.norm.weight");
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

  // One matrix of all experts of a layer, which lie one behind the other.
  void AddExperts(int64_t layer, const ExpertPlan& plan, const std::string& gguf,
                  std::string_view part) {
    if (!status_.ok()) return;
    const auto name = [&](int64_t e) { return ExpertName(layer, plan, e, part) + ".weight"; };
    const std::vector<int64_t>& shape = shapes_.at(name(0));
    const size_t before = plans_.size();
    Add(gguf, name(0), {plan.count, shape[0], shape[1]});
    if (!status_.ok()) return;
    const GgufTensor* source = plans_.back().source;
    plans_.resize(before);
    for (int64_t e = 0; e < plan.count; ++e) {
      plans_.push_back({source, name(e), shape, 0, e, plan.count});
    }
  }

  // "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight".
  void Layer(int64_t layer) {
    const LayerPlan& plan = decoder_.layers[static_cast<size_t>(layer)];
    const std::pair<std::string_view, const char*> parts[] = {
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
        {plan.attention_in, "attn_norm"},
        {plan.attention_out, "post_attention_norm"},
        {plan.mlp_in, "ffn_norm"},
        {plan.mlp_out, "post_ffw_norm"},
    };
    const std::string from = "blk." + std::to_string(layer) + ".";
    if (const ExpertPlan& experts = plan.experts; experts.count > 0) {
      Add(from + "ffn_gate_inp.weight", LayerName(layer, experts.router) + ".weight",
          {experts.count, config_.hidden_size});
      AddExperts(layer, experts, from + "ffn_gate_exps.weight", experts.gate);
      AddExperts(layer, experts, from + "ffn_up_exps.weight", experts.up);
      AddExperts(layer, experts, from + "ffn_down_exps.weight", experts.down);
    }
    for (const auto& [ours, theirs] : parts) {
      if (ours.empty()) continue;
      // llama.cpp rotates neighbours in files of some families, transformers the two halves of a
      // head; the converter reorders their rows.
      int64_t heads = 0;
      if (neighbours_ && ours == "self_attn.q_proj") heads = config_.num_heads;
      if (neighbours_ && ours == "self_attn.k_proj") heads = config_.num_kv_heads;
      for (const char* kind : {".weight", ".bias"}) {
        const std::string name = LayerName(layer, ours) + kind;
        if (const auto shape = shapes_.find(name); shape != shapes_.end()) {
          Add(from + theirs + kind, name, shape->second, heads);
        }
      }
    }
  }

  const ModelConfig& config_;
  const DecoderPlan decoder_;
  const TensorShapes shapes_;
  const bool neighbours_;
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
  const int64_t elements = plan.source->elements() / plan.parts;
  const size_t bytes = plan.source->data.size() / static_cast<size_t>(plan.parts);
  const std::string_view data =
      plan.source->data.substr(static_cast<size_t>(plan.part) * bytes, bytes);
  const int64_t rows = plan.rotary_heads > 0 || plan.shape.size() > 1 ? plan.shape[0] : 1;
  const auto columns = static_cast<size_t>(elements / rows);
  const int64_t head = plan.rotary_heads > 0 ? rows / plan.rotary_heads : 1;
  if (columns % GgmlBlockOf(plan.source->type).elements != 0) {
    return Invalid("tensor \"" + plan.source->name + "\" has rows that are no whole blocks");
  }
  const size_t row_bytes = data.size() / static_cast<size_t>(rows);
  std::vector<float> numbers(columns);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = row;
    if (plan.rotary_heads > 0) {
      // Of a head's rows 0, 1, .. the first halves of the pairs stand at 0, 2, .., the others at 1,
      // 3, ..
      const int64_t in_head = row % head;
      from = row - in_head + (in_head % (head / 2)) * 2 + in_head / (head / 2);
    }
    Dequantise(plan.source->type, data.substr(static_cast<size_t>(from) * row_bytes, row_bytes),
               numbers);
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
