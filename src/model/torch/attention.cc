#include "model/torch/attention.h"

#include "model/torch/aten.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr int64_t kQueryBlock = 256;

// Queries [first, last) of one sequence and the keys some of them see, with heads in front:
// q [kv, group · block, d], k and v [kv, keys, d].
struct Block {
  int64_t row;    // of the first query
  int64_t first;  // its position in the sequence
  int64_t last;
  int64_t first_key;  // the position of the first key
  int64_t start;      // its row
  int64_t rows() const { return last - first; }
  int64_t keys() const { return last - first_key; }
};

std::vector<Block> Blocks(const PackSight& sight) {
  const std::vector<int64_t>&starts = sight.starts, &key_starts = sight.key_starts;
  std::vector<Block> blocks;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t length = key_starts[s + 1] - key_starts[s];
    const int64_t before = length - (starts[s + 1] - starts[s]);  // keys without a query
    for (int64_t first = before; first < length; first += kQueryBlock) {
      const int64_t last = std::min(length, first + kQueryBlock);
      const int64_t first_key =
          sight.window > 0 ? std::max<int64_t>(0, first + 1 - sight.window) : 0;
      blocks.push_back(
          {starts[s] + first - before, first, last, first_key, key_starts[s] + first_key});
    }
  }
  return blocks;
}

// [rows, heads, d] -> [kv, group · rows, d]: the queries that share a key head lie together.
at::Tensor GroupQueries(const at::Tensor& x, int64_t kv_heads) {
  const int64_t rows = x.size(0), group = x.size(1) / kv_heads, d = x.size(2);
  return x.reshape({rows, kv_heads, group, d}).permute({1, 2, 0, 3}).reshape({kv_heads, -1, d});
}

// The way back.
at::Tensor UngroupQueries(const at::Tensor& x, int64_t rows) {
  const int64_t kv_heads = x.size(0), group = x.size(1) / rows, d = x.size(2);
  return x.view({kv_heads, group, rows, d}).permute({2, 0, 1, 3}).reshape({rows, -1, d});
}

at::Tensor Keys(const at::Tensor& x, const Block& b) {
  return x.narrow(0, b.start, b.keys()).transpose(0, 1);
}

// The keys that a query may not see: true where the key comes later, or left its window. [rows,
// keys]
at::Tensor Hidden(const Block& b, int64_t window, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kBool).device(device);
  const int64_t own = b.first - b.first_key;  // the first query's key
  at::Tensor hidden = at::ones({b.rows(), b.keys()}, options).triu_(own + 1);
  if (window > 0 && b.keys() > window) {
    hidden.logical_or_(at::ones({b.rows(), b.keys()}, options).tril_(own - window));
  }
  return hidden;
}

// Float32 probabilities [kv, group · rows, keys].
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& keys, const Block& b,
                         const PackSight& sight) {
  at::Tensor scores = at::bmm(q, keys.transpose(1, 2)).to(at::kFloat).mul_(sight.scale);
  if (b.rows() > 1) {
    scores.view({-1, b.rows(), b.keys()})
        .masked_fill_(Hidden(b, sight.window, q.device()), -std::numeric_limits<float>::infinity());
  }
  return at::softmax(scores, -1);
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const PackSight& sight) {
    at::Tensor out = CausalAttentionForward(q, k, v, sight);
    ctx->save_for_backward({q, k, v, out});
    ctx->saved_data["starts"] = sight.starts;
    ctx->saved_data["key_starts"] = sight.key_starts;
    ctx->saved_data["window"] = sight.window;
    ctx->saved_data["scale"] = sight.scale;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const PackSight sight{.starts = ctx->saved_data["starts"].toIntVector(),
                          .key_starts = ctx->saved_data["key_starts"].toIntVector(),
                          .window = ctx->saved_data["window"].toInt(),
                          .scale = ctx->saved_data["scale"].toDouble()};
    const AttentionGradients d = CausalAttentionBackward(saved[0], saved[1], saved[2], saved[3],
                                                         grads[0].contiguous(), sight);
    return {d.q, d.k, d.v, at::Tensor()};
  }
};

}  // namespace

at::Tensor CausalAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const PackSight& sight) {
  at::Tensor out = at::empty_like(q);
  for (const Block& b : Blocks(sight)) {
    const at::Tensor p =
        Probabilities(GroupQueries(q.narrow(0, b.row, b.rows()), k.size(1)), Keys(k, b), b, sight);
    const at::Tensor values = Keys(v, b);
    out.narrow(0, b.row, b.rows())
        .copy_(UngroupQueries(at::bmm(p.to(values.scalar_type()), values), b.rows()));
  }
  return out;
}

AttentionGradients CausalAttentionBackward(const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v, const at::Tensor& out,
                                           const at::Tensor& out_gradient, const PackSight& sight) {
  // Σ_j p_j · ∂p_j of each query and head is its output times the output's gradient.
  const at::Tensor weighted = (out_gradient * out).to(at::kFloat).sum(-1, true);
  const AttentionGradients d{at::empty_like(q), at::zeros_like(k), at::zeros_like(v)};
  for (const Block& b : Blocks(sight)) {
    const at::Tensor queries = GroupQueries(q.narrow(0, b.row, b.rows()), k.size(1));
    const at::Tensor out_grad = GroupQueries(out_gradient.narrow(0, b.row, b.rows()), k.size(1));
    const at::Tensor keys = Keys(k, b);
    const at::Tensor p = Probabilities(queries, keys, b, sight);
    Keys(d.v, b).add_(at::bmm(p.to(v.scalar_type()).transpose(1, 2), out_grad));
    at::Tensor ds = at::bmm(out_grad, Keys(v, b).transpose(1, 2)).to(at::kFloat);
    ds.sub_(GroupQueries(weighted.narrow(0, b.row, b.rows()), k.size(1))).mul_(p).mul_(sight.scale);
    ds = ds.to(q.scalar_type());
    d.q.narrow(0, b.row, b.rows()).copy_(UngroupQueries(at::bmm(ds, keys), b.rows()));
    Keys(d.k, b).add_(at::bmm(ds.transpose(1, 2), queries));
  }
  return d;
}

at::Tensor PackedCausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const PackSight& sight) {
  TM_CHECK(sight.starts.size() == sight.key_starts.size(), "every sequence has keys");
  return CausalAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), sight);
}

}  // namespace tidemill
