// The head: from hidden states to the log-probability and entropy of each token, with their
// gradients.
#include "model/torch/aten.h"

#include <torch/csrc/autograd/custom_function.h>

#include "learner/torch/exact_pass.h"
#include "learner/torch/fused_decoder.h"
#include "model/torch/draw_supports.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ScoresOfTokens : public torch::autograd::Function<ScoresOfTokens> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& head,
                               const Tensor& targets, double temperature,
                               const DrawSupports* supports, const ExactPass* exact) {
    const int64_t rows = hidden.size(0);
    Tensor logits = exact != nullptr ? exact->Logits(hidden) : at::mm(hidden, head.t());
    Tensor as_drawn;
    if (exact != nullptr) as_drawn = exact->LogprobsIn(logits, targets, temperature);
    if (temperature != 1.0) logits.div_(temperature);
    if (supports != nullptr) LimitLogits(*supports, 0, targets, 1.0, logits);
    Tensor logprobs = at::empty({rows}, hidden.options()), entropy = at::empty_like(logprobs);
    Tensor log_sums = at::empty_like(logprobs);
    ChooseTrainKernels().scores_forward(rows, logits.size(1), logits.data_ptr<float>(),
                                        targets.data_ptr<int64_t>(), log_sums.data_ptr<float>(),
                                        logprobs.data_ptr<float>(), entropy.data_ptr<float>());
    ctx->save_for_backward({hidden, head, targets, logits, log_sums, entropy});
    ctx->saved_data["temperature"] = temperature;
    return {exact != nullptr ? as_drawn : logprobs, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &head = saved[1], &targets = saved[2];
    const double temperature = ctx->saved_data["temperature"].toDouble();
    // The saved logits become their own gradient: a graph is walked once.
    const Tensor& d = saved[3];
    const Tensor dlogprobs =
        grads[0].defined() ? grads[0].contiguous() : at::zeros({d.size(0)}, d.options());
    const Tensor dentropy = grads[1].defined() ? grads[1].contiguous() : Tensor();
    ChooseTrainKernels().scores_backward(
        d.size(0), d.size(1), targets.data_ptr<int64_t>(), saved[4].data_ptr<float>(),
        saved[5].data_ptr<float>(), dlogprobs.data_ptr<float>(),
        dentropy.defined() ? dentropy.data_ptr<float>() : nullptr, d.data_ptr<float>());
    if (temperature != 1.0) d.div_(temperature);
    return {at::mm(d, head), at::mm(d.t(), hidden), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

TokenScores FusedTokenScores(const ModelTensorsView& view, const Tensor& hidden,
                             const Tensor& targets, double temperature,
                             const DrawSupports* supports, const ExactPass* exact) {
  TM_CHECK(temperature > 0 && hidden.size(0) == targets.size(0),
           "every hidden state has a target, and the temperature is positive");
  auto out = ScoresOfTokens::apply(hidden, view.head, targets, temperature, supports, exact);
  return {out[0], out[1]};
}

}  // namespace tidemill
