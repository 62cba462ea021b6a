// Causal attention over packed sequences in bfloat16, and its gradient: libtorch's flash attention.
// Tests that run the GPU's path on the CPU (tests/cuda_host) put another file in place of
// packed_flash.cc. Only in builds with CUDA.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemill {

// Sequence s has queries [starts[s], starts[s + 1]) and keys [key_starts[s], key_starts[s + 1]);
// its last query sees its last key. int32 on the GPU.
struct FlashPack {
  at::Tensor starts, key_starts;
  int64_t longest = 0, longest_keys = 0;
};

// q [n, heads, d], k and v [m, kv_heads, d].
struct FlashInput {
  at::Tensor q, k, v;
};

// out as q; the rest is for the gradient.
struct FlashOutput {
  at::Tensor out, log_sums, seed, unused;
};

FlashOutput PackedFlashForward(const FlashInput& in, const FlashPack& pack);
// Of q, k and v.
FlashInput PackedFlashBackward(const at::Tensor& dout, const FlashInput& in, const FlashOutput& of,
                               const FlashPack& pack);

}  // namespace tidemill
