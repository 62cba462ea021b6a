#include "model/torch/attention.h"

#include "model/torch/aten.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr int64_t kQueryBlock = 256;

// Queries [first, last) of one sequence and the keys they may see, with heads in front:
// q [kv, group · block, d], k and v [kv, last, d].
struct Block {
  int64_t row;    // of the first query
  int64_t first;  // its position in the sequence
  int64_t last;
  int64_t start;  // of the sequence's keys
  int64_t rows() const { return last - first; }
};

std::vector<Block> Blocks(const std::vector<int64_t>& starts,
                          const std::vector<int64_t>& key_starts) {
  std::vector<Block> blocks;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t length = key_starts[s + 1] - key_starts[s];
    const int64_t before = length - (starts[s + 1] - starts[s]);  // keys without a query
    for (int64_t first = before; first < length; first += kQueryBlock) {
      const int64_t last = std::min(length, first + kQueryBlock);
      blocks.push_back({starts[s] + first - before, first, last, key_starts[s]});
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
  return x.narrow(0, b.start, b.last).transpose(0, 1);
}

// What a query may not see: true where the key comes later. [rows, last]
at::Tensor LaterKeys(const Block& b, const at::Device& device) {
  return at::ones({b.rows(), b.last}, at::TensorOptions().dtype(at::kBool).device(device))
      .triu_(b.first + 1);
}

// Float32 probabilities [kv, group · rows, last].
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& keys, const Block& b,
                         const at::Tensor& later) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  at::Tensor scores = at::bmm(q, keys.transpose(1, 2)).to(at::kFloat).mul_(scale);
  if (b.rows() > 1) {
    scores.view({-1, b.rows(), b.last})
        .masked_fill_(later, -std::numeric_limits<float>::infinity());
  }
  return at::softmax(scores, -1);
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, std::vector<int64_t> starts,
                            std::vector<int64_t> key_starts) {
    at::Tensor out = at::empty_like(q);
    for (const Block& b : Blocks(starts, key_starts)) {
      const at::Tensor p = Probabilities(GroupQueries(q.narrow(0, b.row, b.rows()), k.size(1)),
                                         Keys(k, b), b, LaterKeys(b, q.device()));
      const at::Tensor values = Keys(v, b);
      out.narrow(0, b.row, b.rows())
          .copy_(UngroupQueries(at::bmm(p.to(values.scalar_type()), values), b.rows()));
    }
    ctx->save_for_backward({q, k, v, out});
    ctx->saved_data["starts"] = std::move(starts);
    ctx->saved_data["key_starts"] = std::move(key_starts);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
    const at::Tensor grad = grads[0].contiguous();
    // Σ_j p_j · ∂p_j of each query and head is its output times the output's gradient.
    const at::Tensor weighted = (grad * saved[3]).to(at::kFloat).sum(-1, true);
    at::Tensor dq = at::empty_like(q);
    at::Tensor dk = at::zeros_like(k);
    at::Tensor dv = at::zeros_like(v);
    for (const Block& b : Blocks(ctx->saved_data["starts"].toIntVector(),
                                 ctx->saved_data["key_starts"].toIntVector())) {
      const at::Tensor queries = GroupQueries(q.narrow(0, b.row, b.rows()), k.size(1));
      const at::Tensor out_grad = GroupQueries(grad.narrow(0, b.row, b.rows()), k.size(1));
      const at::Tensor keys = Keys(k, b);
      const at::Tensor p = Probabilities(queries, keys, b, LaterKeys(b, q.device()));
      Keys(dv, b).add_(at::bmm(p.to(v.scalar_type()).transpose(1, 2), out_grad));
      at::Tensor ds = at::bmm(out_grad, Keys(v, b).transpose(1, 2)).to(at::kFloat);
      ds.sub_(GroupQueries(weighted.narrow(0, b.row, b.rows()), k.size(1))).mul_(p).mul_(scale);
      ds = ds.to(q.scalar_type());
      dq.narrow(0, b.row, b.rows()).copy_(UngroupQueries(at::bmm(ds, keys), b.rows()));
      Keys(dk, b).add_(at::bmm(ds.transpose(1, 2), queries));
    }
    return {dq, dk, dv, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor PackedCausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::vector<int64_t>& starts,
                                 const std::vector<int64_t>& key_starts) {
  TM_CHECK(starts.size() == key_starts.size(), "every sequence has keys");
  return CausalAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), starts, key_starts);
}

}  // namespace tidemill
