// Memory of a GPU. Sizes in bytes; H, F, q, kv, V: width, feed-forward, queries, keys, vocabulary.
#include <algorithm>

#include "model/memory_plan.h"

namespace tidemill {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Not computed but assumed: the context of CUDA with the kernels of libtorch, cuBLAS and cuDNN; the
// captured graphs and the workspaces of matrix products.
constexpr int64_t kContext = 1024 * kMiB;
constexpr int64_t kGraphs = 512 * kMiB;
// The same: what libtorch's allocator holds and cannot use, and what a backward pass has besides,
// as a share of what a step keeps.
constexpr int64_t kSlackParts = 10;
constexpr int64_t kScoreRows = 4096;  // model/torch/cuda_scores.cc

struct Sizes {
  explicit Sizes(const PlanInput& in)
      : c(in.model),
        H(c.hidden_size),
        F(c.intermediate_size),
        q(c.q_size()),
        kv(c.kv_size()),
        V(c.vocab_size),
        P(c.ParameterCount()),
        trained(in.lora_rank > 0 ? AdapterParameters(c, in.lora_rank) : P) {}

  // What one token leaves in one layer for the backward pass, in bfloat16 (cuda_train.cc): two
  // norms keep their sums and give the inputs of products, attention keeps rotated rows and its
  // result, SwiGLU both its input and its result; float32 sums of attention and norms.
  int64_t LayerToken() const {
    int64_t numbers = 4 * H + (q + 2 * kv) + q + 3 * F;
    if (c.qk_norm()) numbers += 2 * (q + kv);
    return 2 * numbers + 4 * (c.num_heads + 2);
  }

  const ModelConfig& c;
  const int64_t H, F, q, kv, V, P, trained;
};

class Rows {
 public:
  void Add(const char* part, const char* what, int64_t bytes) {
    if (bytes > 0) rows_.push_back({part, what, static_cast<uint64_t>(bytes)});
  }
  std::vector<PlanRow> Take() { return std::move(rows_); }

 private:
  std::vector<PlanRow> rows_;
};

void AddLearner(const PlanInput& in, const Sizes& s, Rows& rows) {
  const bool lora = in.lora_rank > 0;
  if (lora) {
    rows.Add("learner", "frozen weights, float32", 4 * s.P);
    rows.Add("learner", "adapter, float32", 4 * s.trained);
  } else {
    // model/torch/cuda_leaves.h
    rows.Add("learner", "weights, float32", 4 * s.P);
    rows.Add("learner", "weights, bfloat16, for products", 2 * s.P);
  }
  rows.Add("learner", "gradients, float32", 4 * s.trained);
  rows.Add("learner", "optimizer moments, float32", 8 * s.trained);
  if (in.updates > 1) rows.Add("learner", "copy that undoes a step", 12 * s.trained);
  if (in.reference) rows.Add("learner", "reference weights, float32", 4 * s.P);
  rows.Add("learner", "teacher", static_cast<int64_t>(in.teacher_bytes));
  if (in.keys) rows.Add("learner", "weights for keys of memory", 4 * s.P);
}

void AddStep(const PlanInput& in, const Sizes& s, Rows& rows) {
  const int64_t tokens = in.token_budget, layers = s.c.num_layers;
  const int64_t layer = s.LayerToken();
  // With recomputation the input of each layer, and one layer with its gradients at a time.
  const int64_t kept = in.recompute ? layers * 2 * s.H + 2 * layer : layers * layer + 4 * s.H;
  rows.Add("learner", "activations", kept * tokens);
  int64_t step = kept * tokens;
  if (in.lora_rank > 0) {
    // A frozen matrix is cast for its product, and the cast kept for the backward pass.
    const int64_t projections = ProjectionParameters(s.c);
    const int64_t casts = in.recompute ? projections / layers : projections;
    rows.Add("learner", "frozen weights cast to bfloat16", 2 * (casts + s.V * s.H));
    step += 2 * (casts + s.V * s.H);
  }
  const int64_t at_once = std::min(tokens, kScoreRows);
  const int64_t logits = 4 * s.V * at_once + 2 * s.V * (in.recompute ? at_once : tokens);
  rows.Add("learner", "logits", logits);
  rows.Add("program", "slack of the allocator (assumed)", (step + logits) / kSlackParts);
}

// engine/cuda/decoder.cc
void AddEngine(const PlanInput& in, const Sizes& s, Rows& rows) {
  rows.Add("engine", "weights, bfloat16", 2 * s.P * in.versions);
  rows.Add("engine", "keys and values", static_cast<int64_t>(in.cache_bytes));
  const int64_t step = in.max_running + in.prefill_chunk;
  const int64_t context = in.max_context > 0 ? in.max_context : s.c.max_position_embeddings;
  const int64_t work = step * (8 * s.H + 2 * (s.q + 2 * s.kv) + 2 * s.q + 6 * s.F);
  const int64_t long_contexts = 4 * step * s.c.num_heads * (s.c.head_dim + 2) * 4;
  const int64_t pages = step * (context / 16 + 2) * 4;
  const int64_t rotations = 4 * context * s.c.head_dim;
  rows.Add("engine", "rows, logits and tables",
           work + 160 * kMiB + long_contexts + pages + rotations);
  rows.Add("engine", "graphs and workspaces (assumed)", kGraphs);
}

}  // namespace

std::vector<PlanRow> PlanOnGpu(const PlanInput& in) {
  const Sizes s(in);
  Rows rows;
  if (in.trains) {
    AddLearner(in, s, rows);
    AddStep(in, s, rows);
  }
  // The newest version, and the next while it is made. Adapters are small; the engine merges them
  // matrix by matrix.
  const int64_t version = in.lora_rank > 0 && in.trains ? 4 * s.trained : 2 * s.P;
  if (in.trains && in.generates) rows.Add("both", "published versions", 2 * version);
  if (in.generates && !in.trains) rows.Add("engine", "next version, on its way", version);
  if (in.generates) AddEngine(in, s, rows);
  rows.Add("program", "CUDA context and kernels (assumed)", kContext);
  return rows.Take();
}

}  // namespace tidemill
