// Causal attention over packed sequences, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tidemill {

// q [n, heads, d], k and v [n, kv_heads, d]; sequence s is rows [starts[s], starts[s + 1]). Gives
// [n, heads, d]. Probabilities exist for one block of queries of one sequence at a time; the
// backward pass computes them again instead of keeping them.
at::Tensor PackedCausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::vector<int64_t>& starts);

}  // namespace tidemill
