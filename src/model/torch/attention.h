// Causal attention over packed sequences, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tidemill {

// q [n, heads, d], k and v [m, kv_heads, d]; the queries of sequence s are rows
// [starts[s], starts[s + 1]), its keys rows [key_starts[s], key_starts[s + 1]), at least as many:
// its last query sees all of them, the one before all but the last, and so on. Gives [n, heads, d].
// Probabilities exist for one block of queries of one sequence at a time; the backward pass
// computes them again instead of keeping them.
at::Tensor PackedCausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::vector<int64_t>& starts,
                                 const std::vector<int64_t>& key_starts);

}  // namespace tidemill
