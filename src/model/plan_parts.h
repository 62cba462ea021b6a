// The terms of the formulas of the GPU's and the CPU's plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
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
        F(FeedForward(c)),
        q(c.q_size()),
        kv(c.kv_size()),
        V(c.vocab_size),
        P(c.ParameterCount()),
        trained(in.lora_rank > 0 ? AdapterParameters(c, in.lora_rank, in.lora_experts) : P),
        adapts_experts(in.lora_experts),
        plan(PlanDecoder(c)) {}

  const ModelConfig& c;
  // F: a third of the numbers between the norm before the feed-forward part and what it gives, of
  // the layer with the most. Experts (model/torch/experts.cc) also copy their rows in and out.
  const int64_t H, F, q, kv, V, P, trained;
  const bool adapts_experts;
  const DecoderPlan plan;

  static int64_t FeedForward(const ModelConfig& c) {
    const ExpertsConfig& e = c.experts;
    const int64_t experts =
        e.chosen * e.width + (2 * e.chosen * c.hidden_size + 3 * e.count + 2) / 3;
    if (e.count == 0) return c.intermediate_size;
    const bool dense = c.DenseLayers() > 0;
    return dense ? std::max(experts, c.intermediate_size) : experts;
  }

  // Of every layer: layers differ in windows and rotation, which take no memory, and in experts,
  // which F counts.
  const LayerPlan& layer() const { return plan.layers.front(); }
  int64_t OutNorms() const { return !layer().attention_out.empty() + !layer().mlp_out.empty(); }
  // Numbers of width H that norms before products keep of a token: what comes in and what goes out.
  int64_t InNorms() const { return 2 + !layer().attention_in.empty() + !layer().mlp_in.empty(); }
  // Numbers of an adapter as engines multiply with it (model/cuda/adapter_layout.h): layers that
  // read the same input are one product, whose B has columns for all of them.
  int64_t LaidOutAdapter(int64_t rank) const {
    const int64_t qkv = 3 * (H + q + 2 * kv), o = q + H;
    const int64_t inner = c.intermediate_size, gate_up = 2 * (H + 2 * inner), down = inner + H;
    const int64_t dense =
        rank * c.num_layers * (qkv + o) + rank * c.DenseLayers() * (gate_up + down);
    return dense + (adapts_experts ? ExpertAdapterParameters(c, rank) : 0);
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
  // What policies take besides the one whose adapter the other rows count, which is the largest
  // that is trained: float32, two moments each, what is published, and the engine's copy.
  void AddPolicies(const PlanInput& in) {
    bool counted = false;
    for (const PlanPolicy& policy : in.policies) {
      if (policy.lora_rank == 0) continue;
      if (policy.trained && policy.lora_rank == in.lora_rank && !std::exchange(counted, true)) {
        continue;
      }
      const int64_t numbers = AdapterParameters(in.model, policy.lora_rank);
      const int64_t trained = policy.trained && in.trains ? (4 + 4 + 8 + 4) * numbers : 0;
      const int64_t drawn = in.generates ? 2 * 4 * numbers : 0;
      rows_.push_back({"both",
                       "policy " + policy.name + ", rank " + std::to_string(policy.lora_rank),
                       static_cast<uint64_t>(trained + drawn)});
    }
  }
  std::vector<PlanRow> Take() { return std::move(rows_); }

 private:
  std::vector<PlanRow> rows_;
};

}  // namespace tidemill
