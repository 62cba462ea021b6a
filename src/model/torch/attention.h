// Causal attention over packed sequences, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tidemill {

// Who sees whom: the queries of sequence s are rows [starts[s], starts[s + 1]), its keys rows
// [key_starts[s], key_starts[s + 1]), at least as many: its last query sees all of them, the one
// before all but the last, and so on; with a window only the last so many of these.
struct PackSight {
  std::vector<int64_t> starts, key_starts;
  int64_t window = 0;  // 0: none
  double scale = 1;    // of the products of queries and keys
};

// q [n, heads, d], k and v [m, kv_heads, d]. Gives [n, heads, d]. Probabilities exist for one block
// of queries of one sequence at a time; the backward pass computes them again instead of keeping
// them.
at::Tensor PackedCausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const PackSight& sight);

// The same without a graph, and the gradients of q, k and v. All contiguous.
at::Tensor CausalAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const PackSight& sight);
struct AttentionGradients {
  at::Tensor q, k, v;
};
AttentionGradients CausalAttentionBackward(const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v, const at::Tensor& out,
                                           const at::Tensor& out_gradient, const PackSight& sight);

}  // namespace tidemill
