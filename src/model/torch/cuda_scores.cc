// Log-probabilities and entropies of tokens on a GPU in bfloat16.
#ifdef TIDEMILL_CUDA

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "model/cuda/train_kernels.h"
#include "model/torch/cuda_leaves.h"
#include "model/torch/cuda_train.h"
#include "model/torch/draw_supports.h"
#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/product_pieces.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kScoreRows = 4096;  // rows whose float32 logits exist at once

// Float32 logits exist for kScoreRows rows at a time. For the backward pass probabilities
// by the target's are kept in bfloat16, which it writes over; without `keep` it computes the logits
// again. The gradient of the head is added to that of `leaves` where there are such.
class ScoresFunction : public torch::autograd::Function<ScoresFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& head,
                               const Tensor& targets, double temperature, bool keep,
                               const std::shared_ptr<const CudaProduct>& leaves, double most,
                               const std::shared_ptr<const DrawSupports>& supports) {
    const int64_t n = hidden.size(0);
    const auto options = hidden.options().dtype(at::kFloat);
    Rows rows{.targets = targets,
              .log_sums = at::empty({n}, options),
              .logprobs = at::empty({n}, options),
              .entropy = at::empty({n}, options),
              .relative = keep ? at::empty({n, head.size(0)}, hidden.options()) : Tensor(),
              .temperature = temperature};
    const int64_t at_once = ScoreRows(n, head, most);
    for (int64_t first = 0; first < n; first += at_once) {
      const int64_t count = std::min(at_once, n - first);
      Tensor logits = WideProduct(hidden.narrow(0, first, count), head.t());
      Limit(supports, rows, first, logits);
      TrainScoresForward(rows.Args(logits, first, count, head.size(0)), CurrentStream());
    }
    ctx->save_for_backward(
        {hidden, head, targets, rows.log_sums, rows.logprobs, rows.entropy, rows.relative});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["head_grad"] = leaves == nullptr && head.requires_grad();
    ctx->saved_data["most"] = most;
    Hold(ctx, "leaves", leaves);
    Hold(ctx, "supports", supports);
    return {rows.logprobs, rows.entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &head = saved[1];
    const Rows rows{.targets = saved[2],
                    .log_sums = saved[3],
                    .logprobs = saved[4],
                    .entropy = saved[5],
                    .relative = saved[6],
                    .temperature = ctx->saved_data["temperature"].toDouble()};
    const Tensor dlog = grads[0].defined() ? grads[0].contiguous() : Tensor();
    const Tensor dent = grads[1].defined() ? grads[1].contiguous() : Tensor();
    const bool head_grad = ctx->saved_data["head_grad"].toBool();
    const auto at = [](const Tensor& t, int64_t first) {
      return t.defined() ? t.data_ptr<float>() + first : nullptr;
    };
    const int64_t n = hidden.size(0);
    const double most = ctx->saved_data["most"].toDouble();
    HeadGradient to{
        .leaves = TakeHeld<CudaProduct>(ctx, "leaves"), .whole = Tensor(), .most = most};
    if (head_grad) to.whole = at::zeros_like(head, head.options().dtype(at::kFloat));
    if (rows.relative.defined()) {
      TrainScoresBackwardInPlace(rows.Args(Tensor(), 0, n, head.size(0)), at(dlog, 0), at(dent, 0),
                                 CurrentStream());
      const Tensor& dlogits = rows.relative;
      to.Add(dlogits, hidden);
      return Gradients(ProductInPieces(dlogits, head, most), to.Whole(head));
    }
    const auto supports = TakeHeld<DrawSupports>(ctx, "supports");
    Tensor dhidden = at::empty_like(hidden);
    const int64_t at_once = ScoreRows(n, head, most);
    for (int64_t first = 0; first < n; first += at_once) {
      const int64_t count = std::min(at_once, n - first);
      const Tensor h = hidden.narrow(0, first, count);
      Tensor logits = WideProduct(h, head.t());
      Limit(supports, rows, first, logits);
      Tensor dlogits = at::empty(logits.sizes(), hidden.options());
      TrainScoresBackward(rows.Args(logits, first, count, head.size(0)), at(dlog, first),
                          at(dent, first), dlogits.data_ptr(), CurrentStream());
      LowProductInto(dlogits, head, dhidden.narrow(0, first, count));
      to.Add(dlogits, h);
    }
    return Gradients(dhidden, to.Whole(head));
  }

 private:
  // Rows whose logits are computed at once.
  static int64_t ScoreRows(int64_t rows, const Tensor& head, double most) {
    return std::min(kScoreRows, RowsOfPiece(rows, RowOperations(head), most));
  }
  // Of the arguments of forward.
  static variable_list Gradients(const Tensor& hidden, const Tensor& head) {
    return {hidden, head, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
  // Where the head's gradient goes: into the leaves' block, to whoever asked for it, or nowhere.
  struct HeadGradient {
    std::shared_ptr<const CudaProduct> leaves;
    Tensor whole;     // float32
    double most = 0;  // operations of a product

    void Add(const Tensor& dlogits, const Tensor& h) const {
      if (leaves != nullptr) AddProductInPieces(dlogits, h, leaves->weight_gradient, most);
      if (whole.defined()) AddProductInPieces(dlogits, h, whole, most);
    }
    Tensor Whole(const Tensor& head) const {
      return whole.defined() ? whole.to(head.scalar_type()) : Tensor();
    }
  };
  // Of all rows; logits and `relative` may be undefined.
  struct Rows {
    Tensor targets, log_sums, logprobs, entropy, relative;
    double temperature = 1;

    TrainScoresArgs Args(const Tensor& logits, int64_t first, int64_t count, int64_t width) const {
      const auto floats = [&](const Tensor& t) {
        return t.defined() ? t.data_ptr<float>() + first : nullptr;
      };
      return {.rows = count,
              .width = width,
              .scale = static_cast<float>(1.0 / temperature),
              .logits = logits.defined() ? logits.data_ptr<float>() : nullptr,
              .targets = targets.data_ptr<int64_t>() + first,
              .log_sums = floats(log_sums),
              .logprobs = floats(logprobs),
              .entropy = floats(entropy),
              .relative =
                  relative.defined() ? relative.data_ptr<at::BFloat16>() + first * width : nullptr};
    }
  };
  // The rows from `first` on, before they are divided by the temperature.
  static void Limit(const std::shared_ptr<const DrawSupports>& supports, const Rows& rows,
                    int64_t first, Tensor& logits) {
    if (supports == nullptr) return;
    LimitLogits(*supports, first, rows.targets.narrow(0, first, logits.size(0)), rows.temperature,
                logits);
  }
};

// The head in bfloat16, as it is now.
Tensor HeadOf(const ModelTensorsView& view) {
  if (view.leaves == nullptr) {
    return view.head.scalar_type() == at::kBFloat16 ? view.head : view.head.to(at::kBFloat16);
  }
  const at::NoGradGuard no_grad;
  Tensor head = view.leaves->head.weight;
  return view.leaves->narrow() ? head : head.copy_(view.head);
}

}  // namespace

TokenScores CudaTokenLogprobs(const ModelTensorsView& view, const Tensor& hidden,
                              const Tensor& targets, double temperature, bool recompute,
                              std::shared_ptr<const DrawSupports> supports) {
  const bool keep = at::GradMode::is_enabled() && !recompute;
  const std::shared_ptr<const CudaProduct> leaves =
      view.leaves != nullptr ? std::shared_ptr<const CudaProduct>(view.leaves, &view.leaves->head)
                             : nullptr;
  auto out = ScoresFunction::apply(hidden.contiguous(), HeadOf(view), targets.contiguous(),
                                   temperature, keep, leaves, view.product_most, supports);
  return {out[0], out[1]};
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
