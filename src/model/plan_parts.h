// The terms of the formulas of the GPU's and the CPU's plan.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/layer_plan.h"
#include "model/memory_plan.h"

namespace tidemill {

// Width, feed-forward, queries, keys, vocabulary, parameters; and how many of them are trained.
struct PlanSizes {
  explicit PlanSizes(const PlanInput& in)
      : c(in.model),
        H(c.hidden_size),
        F(c.intermediate_size),
        q(c.q_size()),
        kv(c.kv_size()),
        V(c.vocab_size),
        P(c.ParameterCount()),
        trained(in.lora_rank > 0 ? AdapterParameters(c, in.lora_rank) : P),
        plan(PlanDecoder(c)) {}

  const ModelConfig& c;
  const int64_t H, F, q, kv, V, P, trained;
  const DecoderPlan plan;

  // Of every layer: layers differ in windows and rotation only, which take no memory.
  const LayerPlan& layer() const { return plan.layers.front(); }
  int64_t OutNorms() const { return !layer().attention_out.empty() + !layer().mlp_out.empty(); }
  // Numbers of width H that norms before products keep of a token: what comes in and what goes out.
  int64_t InNorms() const { return 2 + !layer().attention_in.empty() + !layer().mlp_in.empty(); }
  // Numbers of an adapter as engines multiply with it (model/cuda/adapter_layout.h): layers that
  // read the same input are one product, whose B has columns for all of them.
  int64_t LaidOutAdapter(int64_t rank) const {
    const int64_t qkv = 3 * (H + q + 2 * kv), o = q + H;
    const int64_t gate_up = 2 * (H + 2 * F), down = F + H;
    return rank * c.num_layers * (qkv + o + gate_up + down);
  }
};

// Two moments in a byte each, with two scales of 4 bytes a block (learner/torch/block_moments.h).
inline int64_t BlockMomentBytes(int64_t numbers) {
  return 2 * numbers + numbers / 8;
}

class PlanRows {
 public:
  // Nothing is no row.
  void Add(const char* part, const char* what, int64_t bytes) {
    if (bytes > 0) rows_.push_back({part, what, static_cast<uint64_t>(bytes)});
  }
  std::vector<PlanRow> Take() { return std::move(rows_); }

 private:
  std::vector<PlanRow> rows_;
};

}  // namespace tidemill
