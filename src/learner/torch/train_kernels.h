// The loops of a training pass on the CPU that are no matrix products, in float32: what libtorch
// does in many small operations, each through memory, is done here in one. One text
// (train_kernels.inc) compiled for three machines; which of them runs is decided at run time.
// Everything is row major.
#pragma once

#include <cstdint>

#include "model/activation.h"

namespace tidemill {

// Rows [start, start + length) of a pack. With a parent, which has none itself and comes earlier,
// its rows stand in front of these as if they were part of the sequence: what several episodes
// begin with is there once.
struct Segment {
  int64_t start = 0;
  int64_t length = 0;
  int64_t parent = -1;
};

// Queries [n, heads * d], keys [n, kv_heads * d] and values with their row strides.
struct AttentionShape {
  const Segment* segments = nullptr;
  int64_t count = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_stride = 0;  // floats from one row of the values to the next
  int64_t window = 0;        // a query sees itself and window - 1 tokens before it; 0: all
  float scale = 1;           // of products of queries and keys
};

// One token's queries and keys: normalized where there are weights, each head by itself or all of
// them as one, then rotated.
struct HeadsShape {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  const float* q_norm = nullptr;  // [head_dim], or [heads * head_dim] where they are one; or null
  const float* k_norm = nullptr;
  bool whole_norm = false;
  float eps = 0;
  const int64_t* positions = nullptr;  // [rows]
  const float* cos = nullptr;          // [position, head_dim / 2]
  const float* sin = nullptr;
};

struct TrainKernels {
  const char* name;
  // y = x rstd w with rstd = 1 / sqrt(mean(x^2) + eps), which is kept.
  void (*rms_forward)(int64_t rows, int64_t width, const float* x, const float* w, float eps,
                      float* y, float* rstd);
  // dx += .., dw += ..
  void (*rms_backward)(int64_t rows, int64_t width, const float* x, const float* w,
                       const float* rstd, const float* dy, float* dx, float* dw);
  // qkv [rows, (heads + 2 kv_heads) d] -> q, k.
  void (*heads_forward)(const HeadsShape& shape, const float* qkv, float* q, float* k);
  // dq, dk -> the first two parts of dqkv; dq_norm and dk_norm += (null without norms).
  void (*heads_backward)(const HeadsShape& shape, const float* qkv, const float* dq,
                         const float* dk, float* dqkv, float* dq_norm, float* dk_norm);
  // For key heads [first, last) and the queries that use them. log_sums is [n, heads].
  void (*attention_forward)(const AttentionShape& shape, int64_t first, int64_t last,
                            const float* q, const float* k, const float* v, float* out,
                            float* log_sums);
  // dq is written; dk and dv (with the values' stride) are added to.
  void (*attention_backward)(const AttentionShape& shape, int64_t first, int64_t last,
                             const float* q, const float* k, const float* v, const float* out,
                             const float* log_sums, const float* dout, float* dq, float* dk,
                             float* dv);
  // gate_up [rows, 2 width] -> act = activation(gate) up.
  void (*gate_forward)(Activation activation, int64_t rows, int64_t width, const float* gate_up,
                       float* act);
  void (*gate_backward)(Activation activation, int64_t rows, int64_t width, const float* gate_up,
                        const float* dact, float* dgate_up);
  // Of softmax(logits): the log of its denominator, the target's log-probability, the entropy.
  void (*scores_forward)(int64_t rows, int64_t width, const float* logits, const int64_t* targets,
                         float* log_sums, float* logprobs, float* entropy);
  // logits become their gradient. dentropy may be null.
  void (*scores_backward)(int64_t rows, int64_t width, const int64_t* targets,
                          const float* log_sums, const float* entropy, const float* dlogprobs,
                          const float* dentropy, float* logits);
};

extern const TrainKernels kTrainKernelsPlain;
extern const TrainKernels kTrainKernelsAvx2;
extern const TrainKernels kTrainKernelsAvx512;

// The best for this machine.
const TrainKernels& ChooseTrainKernels();

}  // namespace tidemill
