// Log-probability and entropy of chosen tokens without the logits of all tokens in memory.
#include "model/torch/aten.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_train.h"
#include "model/torch/device.h"
#endif
#include "model/torch/draw_supports.h"
#include "model/torch/held.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

using Supports = std::shared_ptr<const DrawSupports>;  // null: every token was drawn from all

// Rows [first, first + rows) of all.
struct Chunk {
  const at::Tensor& hidden;
  const at::Tensor& targets;
  int64_t first, rows;
  at::Tensor Hidden() const { return hidden.narrow(0, first, rows); }
  at::Tensor Targets() const { return targets.narrow(0, first, rows); }
};

// Float32 logits of the chunk, divided by the temperature.
at::Tensor ChunkLogits(const Chunk& chunk, const at::Tensor& head, double temperature,
                       const Supports& supports) {
  at::Tensor logits = at::matmul(chunk.Hidden(), head.t()).to(at::kFloat);
  if (temperature != 1.0) logits.div_(temperature);
  if (supports != nullptr) LimitLogits(*supports, chunk.first, chunk.Targets(), 1.0, logits);
  return logits;
}

class LogprobsOfTokens : public torch::autograd::Function<LogprobsOfTokens> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& hidden, const at::Tensor& head,
                                                const at::Tensor& targets, double temperature,
                                                int64_t chunk, const Supports& supports) {
    const int64_t n = hidden.size(0);
    const auto options = hidden.options().dtype(at::kFloat);
    at::Tensor logprobs = at::empty({n}, options);
    at::Tensor entropy = at::empty({n}, options);
    at::Tensor log_sums = at::empty({n}, options);
    for (int64_t first = 0; first < n; first += chunk) {
      const int64_t rows = std::min(chunk, n - first);
      const at::Tensor logits =
          ChunkLogits({hidden, targets, first, rows}, head, temperature, supports);
      const at::Tensor log_sum = at::logsumexp(logits, {1});
      const at::Tensor chosen =
          logits.gather(1, targets.narrow(0, first, rows).unsqueeze(1)).squeeze(1);
      const at::Tensor mean = (logits - log_sum.unsqueeze(1)).exp_().mul_(logits).sum(1);
      logprobs.narrow(0, first, rows).copy_(chosen - log_sum);
      entropy.narrow(0, first, rows).copy_(log_sum - mean);
      log_sums.narrow(0, first, rows).copy_(log_sum);
    }
    ctx->save_for_backward({hidden, head, targets, log_sums, entropy});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["chunk"] = chunk;
    ctx->saved_data["head_grad"] = head.requires_grad();
    Hold(ctx, "supports", supports);
    return {logprobs, entropy};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& hidden = saved[0];
    const at::Tensor& head = saved[1];
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const int64_t chunk = ctx->saved_data["chunk"].toInt();
    const bool head_grad = ctx->saved_data["head_grad"].toBool();
    const Supports supports = TakeHeld<DrawSupports>(ctx, "supports");
    const int64_t n = hidden.size(0);
    at::Tensor dhidden = at::empty_like(hidden);
    at::Tensor dhead =
        head_grad ? at::zeros_like(head, head.options().dtype(at::kFloat)) : at::Tensor();
    for (int64_t first = 0; first < n; first += chunk) {
      const int64_t rows = std::min(chunk, n - first);
      const Chunk part{hidden, saved[2], first, rows};
      const at::Tensor h = part.Hidden();
      // log p, then p, then the gradient, in one buffer.
      at::Tensor d = ChunkLogits(part, head, temperature, supports);
      d.sub_(saved[3].narrow(0, first, rows).unsqueeze(1));
      at::Tensor entropy_part;
      if (grads[1].defined()) {
        // ∂H/∂z_j = −p_j (log p_j + H)
        entropy_part = (d + saved[4].narrow(0, first, rows).unsqueeze(1))
                           .mul_(grads[1].narrow(0, first, rows).unsqueeze(1).neg());
      }
      d.exp_();
      if (entropy_part.defined()) entropy_part.mul_(d);
      if (grads[0].defined()) {
        // ∂ log p_t / ∂z_j = [j = t] − p_j
        const at::Tensor g = grads[0].narrow(0, first, rows).unsqueeze(1);
        d.mul_(g.neg()).scatter_add_(1, saved[2].narrow(0, first, rows).unsqueeze(1),
                                     g.contiguous());
      } else {
        d.zero_();
      }
      if (entropy_part.defined()) d.add_(entropy_part);
      if (temperature != 1.0) d.div_(temperature);
      const at::Tensor low = d.to(hidden.scalar_type());
      dhidden.narrow(0, first, rows).copy_(at::matmul(low, head));
      if (!head_grad) continue;
      if (hidden.scalar_type() == at::kFloat) {
        dhead.addmm_(low.t(), h);
      } else {
        dhead.add_(at::matmul(low.t(), h));
      }
    }
    if (head_grad) dhead = dhead.to(head.scalar_type());
    return {dhidden, dhead, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

TokenScores TokenLogprobs(const ModelTensorsView& view, const at::Tensor& hidden,
                          const at::Tensor& targets, double temperature, int64_t chunk,
                          [[maybe_unused]] bool recompute,
                          std::shared_ptr<const DrawSupports> supports) {
  TM_CHECK(chunk > 0 && temperature > 0, "chunk and temperature are positive");
  TM_CHECK(hidden.size(0) == targets.size(0), "every hidden state has a target");
  TM_CHECK(supports == nullptr || supports->set_of.size() == static_cast<size_t>(hidden.size(0)),
           "every hidden state has what its target was drawn from");
#ifdef TIDEMILL_CUDA
  if (OnGpu(hidden) && hidden.scalar_type() == at::kBFloat16) {
    return CudaTokenLogprobs(view, hidden, targets, temperature, recompute, std::move(supports));
  }
#endif
  const at::Tensor head = view.head.scalar_type() == hidden.scalar_type()
                              ? view.head
                              : view.head.to(hidden.scalar_type());
  auto out = LogprobsOfTokens::apply(hidden, head, targets, temperature, chunk, supports);
  return {out[0], out[1]};
}

}  // namespace tidemill
