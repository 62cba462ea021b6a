// The kernels of a training pass on a GPU that are no matrix products, in bfloat16 with float32
// sums: what libtorch does in many small operations, each through memory, is done here in one.
// Every pointer is device memory, everything is row major, nothing waits.
#pragma once

#include <cstdint>

#include "model/cuda/kernels.h"
#include "model/moment_codes.h"

namespace tidemill {

// y = s rstd w with rstd = 1 / sqrt(mean(s^2) + eps), which is kept; s is x, or x + more, which is
// kept as well. `width` is a multiple of 4.
struct TrainNormShape {
  int64_t rows = 0;
  int width = 0;
  float eps = 0;
};
struct TrainNormIn {
  const void* x = nullptr;
  const void* more = nullptr;  // or null
  void* sum = nullptr;         // where there is more
};
void TrainNormForward(const TrainNormShape& shape, const TrainNormIn& in, const float* w, void* y,
                      float* rstd, CudaStream stream);

// dx is the gradient of s: that through the norm, and `dsum` where s was used elsewhere too.
// dw_parts [TrainNormParts(rows), width] gets sums over parts of the rows, where it is not null.
struct TrainNormGradients {
  const void* dy = nullptr;
  const void* dsum = nullptr;  // or null
  void* dx = nullptr;
  float* dw_parts = nullptr;
};
int TrainNormParts(int64_t rows);
void TrainNormBackward(const TrainNormShape& shape, const void* s, const float* w,
                       const float* rstd, const TrainNormGradients& gradients, CudaStream stream);

// Queries, keys and values of each row, each with its own distance between rows, into one row
// [(heads + 2 kv_heads) d]; queries and keys turned by the row's angles, or with `back` turned
// back. With `uses`, the keys and values of row r are the sums of those of the rows
// uses[first_use[r] .. first_use[r + 1]).
struct TrainRotateArgs {
  int64_t rows = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t q_stride = 0;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  const float* cos = nullptr;  // [rows, head_dim / 2]
  const float* sin = nullptr;
  bool back = false;
  const int32_t* first_use = nullptr;  // [rows + 1]
  const int32_t* uses = nullptr;
  void* out = nullptr;
};
void TrainRotate(const TrainRotateArgs& args, CudaStream stream);

// gate_up [rows, 2 width] -> activation(gate) up, and its gradient. `width` is a multiple of 4.
void TrainGateForward(Activation activation, int64_t rows, int width, const void* gate_up,
                      void* act, CudaStream stream);
void TrainGateBackward(Activation activation, int64_t rows, int width, const void* gate_up,
                       const void* dact, void* dgate_up, CudaStream stream);

// Of softmax(logits * scale), logits float32 [rows, width]: the log of its denominator, the
// target's log-probability, the entropy, and where wanted every probability by the target's (at
// most e^80; that of the target itself is exactly 1).
struct TrainScoresArgs {
  int64_t rows = 0;
  int64_t width = 0;
  float scale = 1;
  const float* logits = nullptr;
  const int64_t* targets = nullptr;
  float* log_sums = nullptr;
  float* logprobs = nullptr;
  float* entropy = nullptr;
  void* relative = nullptr;  // bfloat16 [rows, width], or null
};
void TrainScoresForward(const TrainScoresArgs& args, CudaStream stream);
// dlogits (bfloat16) from the gradients of log-probabilities and entropies, either of which may be
// null, and from the logits; or from what was kept as `relative`, in whose place they are put.
void TrainScoresBackward(const TrainScoresArgs& args, const float* dlogprobs, const float* dentropy,
                         void* dlogits, CudaStream stream);
void TrainScoresBackwardInPlace(const TrainScoresArgs& args, const float* dlogprobs,
                                const float* dentropy, CudaStream stream);

// p <- decay p - rate m / (sqrt(v) / root + eps) after m and v took the gradient in.
struct TrainAdamW {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};
void TrainAdamWStep(const TrainAdamW& update, int64_t count, const float* grad, float* p, float* m,
                    float* v, CudaStream stream);

// The same of weights in two halves (model/split_float.h) with moments in a byte each
// (model/moment_codes.h), by a gradient in bfloat16. `step` is the number of the update.
struct TrainSplitWeights {
  int64_t count = 0;
  int64_t first = 0;  // which number of its tensor the first is; a multiple of kMomentBlock
  const void* grad = nullptr;  // bfloat16
  void* high = nullptr;        // bfloat16
  int16_t* rest = nullptr;
  uint8_t* first_moments = nullptr;
  float* first_scales = nullptr;  // of MomentBlocks(count) blocks
  uint8_t* second_moments = nullptr;
  float* second_scales = nullptr;
};
void TrainSplitAdamWStep(const AdamWUpdate& update, uint64_t step, const TrainSplitWeights& weights,
                         CudaStream stream);

}  // namespace tidemill
