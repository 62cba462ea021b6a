// Memory of the host where engine and learner run on the CPU: everything is float32.
#include <algorithm>

#include "model/plan_parts.h"

namespace tidemill {
namespace {

constexpr int64_t kProgram = int64_t{170} << 20;  // measured: libraries, tasks, database, threads
constexpr int64_t kCpuScoreRows = 1024;           // learner/torch/policy_scorer.cc
constexpr int64_t kLogitsAtOnce = int64_t{16} << 20;  // the same: numbers, most

void AddCpuLearner(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  if (in.lora_rank > 0) {
    // Mapped from their file, or drawn in the same type.
    rows.Add("learner", "frozen weights", (s.c.dtype == Dtype::kBF16 ? 2 : 4) * s.P);
  }
  rows.Add("learner", in.lora_rank > 0 ? "adapter" : "weights", 4 * s.trained);
  rows.Add("learner", "gradients", 4 * s.trained);
  const bool bytes = in.block_moments.value_or(false);
  const int64_t moments = bytes ? BlockMomentBytes(s.trained) : 8 * s.trained;
  rows.Add("learner", bytes ? "optimizer moments, in bytes" : "optimizer moments", moments);
  if (in.updates > 1) rows.Add("learner", "copy that undoes a step", 4 * s.trained + moments);
  if (in.reference) rows.Add("learner", "reference weights", 4 * s.P);
  rows.Add("learner", "teacher", static_cast<int64_t>(in.teacher_bytes));
  if (in.keys) rows.Add("learner", "weights for keys of memory", 4 * s.P);
  rows.Add("learner", "checkpoint on its way to disk", 4 * s.trained + moments);
}

// learner/torch/fused_decoder.cc; with an adapter libtorch's autograd, which keeps more.
void AddCpuStep(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  const int64_t tokens = in.token_budget, layers = s.c.num_layers;
  const int64_t norms = s.InNorms() + 2 * s.OutNorms();
  const int64_t layer =
      norms * s.H + (s.q + 2 * s.kv) + 2 * s.q + s.kv + 3 * s.F + s.c.num_heads + s.layer().norms();
  const int64_t passing = (4 + s.OutNorms()) * s.H + 3 * s.F + 3 * s.q + 3 * s.kv;
  if (in.lora_rank > 0 || in.recompute || s.c.experts.count > 0) {
    const int64_t graph = (2 + norms) * s.H + 3 * (s.q + 2 * s.kv) + 2 * s.q + 5 * s.F;
    const int64_t kept = in.recompute ? layers * s.H + graph : layers * graph;
    rows.Add("learner", "activations", 4 * (kept + passing) * tokens);
  } else {
    // Buffers grow by an eighth more than is asked for.
    rows.Add("learner", "activations", (layers * layer + passing) * tokens / 2 * 9);
    const int64_t joined = (s.q + 2 * s.kv + 2 * s.F) * s.H;
    rows.Add("learner", "matrices of one input, joined", 4 * layers * joined);
  }
  const int64_t at_once = tokens * s.V <= kLogitsAtOnce && in.lora_rank == 0
                              ? 2 * tokens * s.V
                              : 3 * std::min(tokens, kCpuScoreRows) * s.V;
  const int64_t head_gradient = in.lora_rank > 0 ? 0 : s.V * s.H;
  rows.Add("learner", "logits", 4 * (at_once + head_gradient));
}

// engine/torch/cpu_weights.cc: packed, with embedding and head apart also where they are tied.
void AddCpuEngine(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  const int64_t packed = s.P + (s.c.tie_word_embeddings ? s.V * s.H : 0);
  // In eight bits embedding, norms and routers stay; a row has a scale.
  const int64_t matrices = s.P - s.V * s.H * (s.c.tie_word_embeddings ? 0 : 1);
  const int64_t base =
      in.int8_weights ? 4 * s.V * s.H + matrices + 4 * (matrices / s.H) : 4 * packed;
  if (in.lora_rank > 0) {
    rows.Add("engine", "packed base", base);
    rows.Add("engine", "packed adapters",
             4 * (in.versions + (in.trains ? 1 : 0)) * s.LaidOutAdapter(in.lora_rank));
  } else {
    rows.Add("engine", "packed weights", in.versions * base);
    if (in.trains) rows.Add("engine", "packed weights of the next version", base);
  }
  rows.Add("engine", "keys and values", static_cast<int64_t>(in.cache_bytes));
}

}  // namespace

std::vector<PlanRow> PlanOnCpu(const PlanInput& in) {
  const PlanSizes s(in);
  PlanRows rows;
  if (in.trains) {
    AddCpuLearner(in, s, rows);
    AddCpuStep(in, s, rows);
    rows.Add("both", "published version", 4 * s.trained);
  }
  if (in.generates) AddCpuEngine(in, s, rows);
  rows.AddPolicies(in);
  rows.Add("program", "program and libraries", kProgram);
  return rows.Take();
}

}  // namespace tidemill
