// Memory of a GPU. Sizes in bytes; H, F, q, kv, V: width, feed-forward, queries, keys, vocabulary.
#include <algorithm>

#include "model/plan_parts.h"

namespace tidemill {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Not computed but assumed: the context of CUDA with the kernels of libtorch, cuBLAS and cuDNN; the
// workspaces of matrix products; what a kernel takes in a captured graph.
constexpr int64_t kContext = 1024 * kMiB;
constexpr int64_t kWorkspaces = 96 * kMiB;
constexpr int64_t kGraphKernel = 64 << 10;
// Graphs of an engine for 1,024 sequences (engine/cuda/step_layout.h); as many again for contexts
// over 1,024 tokens.
constexpr int64_t kGraphSizes = 19;
constexpr int64_t kShortContext = 1024;
// The same: what libtorch's allocator holds and cannot use, as a share of what a step keeps.
constexpr int64_t kSlackParts = 25;
constexpr int64_t kScoreRows = 4096;  // model/torch/cuda_scores.cc
// model/torch/host_state.h: numbers whose state is on the GPU at a time.
constexpr int64_t kStreamedNumbers = 4 * (int64_t{1} << 23);

// What one token leaves in one layer for the backward pass, in bfloat16 (cuda_train.cc): norms keep
// their sums and give the inputs of products, attention keeps rotated rows and its result, the
// gate's function both its input and its result; float32 sums of attention and norms.
int64_t LayerToken(const PlanSizes& s) {
  int64_t numbers = (s.InNorms() + s.OutNorms()) * s.H + (s.q + 2 * s.kv) + s.q + 3 * s.F;
  if (s.layer().qk_norm != QueryKeyNorm::kNone) numbers += 2 * (s.q + s.kv);
  return 2 * numbers + 4 * (s.c.num_heads + s.layer().norms());
}

bool StateOnHost(const PlanInput& in) {
  return in.trains && in.lora_rank == 0 && in.block_moments.value_or(false) &&
         in.state_on_host.value_or(false);
}

// The trained numbers, and how the optimizer keeps them.
void AddTrained(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  const int64_t n = s.trained;
  int64_t undo = 12 * n;  // weights and moments
  if (in.lora_rank > 0) {
    rows.Add("learner", "adapter, float32 and bfloat16", 6 * n);
    rows.Add("learner", "gradients, float32", 4 * n);
    rows.Add("learner", "optimizer moments, float32", 8 * n);
  } else if (in.block_moments.value_or(false)) {
    const bool host = StateOnHost(in);
    const int64_t moments = host ? 0 : BlockMomentBytes(n), low = host ? 0 : 2 * n;
    rows.Add("learner", "weights, bfloat16", 2 * n);
    rows.Add("learner", "their low 16 bits", low);
    rows.Add("learner", "gradients, bfloat16", 2 * n);
    rows.Add("learner", "optimizer moments, in bytes", moments);
    if (host) {
      const int64_t here = std::min(n, kStreamedNumbers);
      rows.Add("learner", "buffers of the state on the host", 2 * here + BlockMomentBytes(here));
    }
    undo = 2 * n + low + moments;
  } else {
    // model/torch/cuda_leaves.h
    rows.Add("learner", "weights, float32", 4 * n);
    rows.Add("learner", "weights, bfloat16, for products", 2 * n);
    rows.Add("learner", "gradients, float32", 4 * n);
    rows.Add("learner", "optimizer moments, float32", 8 * n);
  }
  if (in.updates > 1) rows.Add("learner", "copy that undoes a step", undo);
}

void AddLearner(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  AddTrained(in, s, rows);
  // With an adapter it is the frozen base.
  if (in.reference && in.lora_rank == 0) {
    rows.Add("learner", "reference weights", (in.block_moments.value_or(false) ? 2 : 4) * s.P);
  }
  rows.Add("learner", "teacher", static_cast<int64_t>(in.teacher_bytes));
  if (in.keys) rows.Add("learner", "weights for keys of memory", 4 * s.P);
}

void AddStep(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  const int64_t tokens = in.token_budget, layers = s.c.num_layers;
  const int64_t layer = LayerToken(s), at_once = std::min(tokens, kScoreRows);
  const int64_t logits = 4 * s.V * at_once + 2 * s.V * (in.recompute ? at_once : tokens);
  // With recomputation the input of each layer, and one layer with its gradients at a time, when
  // the logits are gone.
  int64_t kept = (layers * layer + 4 * s.H) * tokens;
  if (in.recompute) {
    kept = layers * 2 * s.H * tokens + std::max<int64_t>(0, 2 * layer * tokens - logits);
  }
  rows.Add("learner", "activations", kept);
  rows.Add("learner", "logits", logits);
  rows.Add("program", "slack of the allocator (assumed)", (kept + logits) / kSlackParts);
}

// engine/cuda/decoder.cc
void AddEngine(const PlanInput& in, const PlanSizes& s, PlanRows& rows) {
  if (in.lora_rank == 0) rows.Add("engine", "weights, bfloat16", 2 * s.P * in.versions);
  const int64_t adapter = 2 * s.LaidOutAdapter(in.lora_rank);
  rows.Add("engine", in.versions > 1 ? "adapters, bfloat16" : "adapter, bfloat16",
           adapter * in.versions);
  rows.Add("engine", "keys and values", static_cast<int64_t>(in.cache_bytes));
  const int64_t step = in.max_running + in.prefill_chunk;
  const int64_t context = in.max_context > 0 ? in.max_context : s.c.max_position_embeddings;
  const int64_t apart = s.OutNorms() > 0 ? 4 * s.H : 0;  // what a product gives before its norm
  const int64_t work = step * (8 * s.H + apart + 2 * (s.q + 2 * s.kv) + 2 * s.q + 6 * s.F);
  const int64_t long_contexts = 4 * step * s.c.num_heads * (s.c.head_dim + 2) * 4;
  const int64_t pages = step * (context / 16 + 2) * 4;
  const int64_t rotations = 4 * context * s.c.head_dim * static_cast<int64_t>(s.plan.ropes.size());
  rows.Add("engine", "rows, logits and tables",
           work + 160 * kMiB + long_contexts + pages + rotations);
  // Of a layer four products, two norms before and some behind them, attention and the gate; with
  // an adapter two small products for each of the four.
  const int64_t kernels = s.c.num_layers * ((in.lora_rank > 0 ? 16 : 8) + s.OutNorms()) + 8;
  const int64_t graphs = kGraphSizes * (context > kShortContext ? 2 : 1);
  rows.Add("engine", "graphs and workspaces (assumed)",
           kWorkspaces + graphs * kernels * kGraphKernel);
}

}  // namespace

std::vector<PlanRow> PlanOnGpu(const PlanInput& in) {
  const PlanSizes s(in);
  const bool shared = in.lora_rank > 0;  // engine and learner read one frozen base
  PlanRows rows;
  if (shared) rows.Add("both", "frozen weights, bfloat16", 2 * s.P);
  if (in.trains) {
    AddLearner(in, s, rows);
    AddStep(in, s, rows);
  }
  // Let go when the engine has taken it (weights/weight_channel.h).
  const int64_t version = shared ? 4 * s.trained + 2 * s.LaidOutAdapter(in.lora_rank) : 2 * s.P;
  if (in.trains) rows.Add("both", "published version", version * (in.policy_teaches ? 2 : 1));
  if (in.generates && !in.trains) rows.Add("engine", "next version, on its way", version);
  if (in.generates) AddEngine(in, s, rows);
  rows.AddPolicies(in);
  rows.Add("program", "CUDA context and kernels (assumed)", kContext);
  return rows.Take();
}

uint64_t PlanOnHost(const PlanInput& in) {
  if (!in.gpu || !StateOnHost(in)) return 0;
  const int64_t n = in.model.ParameterCount();
  // Low halves and moments; more than one update a step keeps what undoes it.
  return static_cast<uint64_t>((2 * n + BlockMomentBytes(n)) * (in.updates > 1 ? 2 : 1));
}

}  // namespace tidemill
