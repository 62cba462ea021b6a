#include "learner/torch/token_objective.h"

#include "model/torch/aten.h"

#include <limits>

#include "learner/torch/objective.h"

namespace tidemill {
namespace {

using at::Tensor;

// The mean of p - q over each token's sequence, for each token; without a gradient.
Tensor SequenceLogRatio(const TokenLossInput& in, const Tensor& difference) {
  const Tensor counted = (in.ratio_mask != 0).to(difference.scalar_type());
  const Tensor zeros = at::zeros({in.sequences}, difference.options());
  const Tensor sums = zeros.index_add(0, in.sequence, counted * difference);
  const Tensor counts = zeros.index_add(0, in.sequence, counted).clamp_min(1);
  return (sums / counts).index_select(0, in.sequence);
}

// A token without an advantage adds nothing, whatever its ratio is, even one that is no number.
Tensor WhereItCounts(const TokenLossInput& in, const Tensor& current, const Tensor& proximal) {
  return at::where(in.weights != 0, proximal, current);
}

void TakeClip(const TokenLoss& loss, ObjectiveConfig& config) {
  config.surrogate = SurrogateKind::kClip;
  config.clip_low = 1 - loss.clip_low;
  config.clip_high = loss.clip_high - 1;
}

}  // namespace

Tensor ComputeTokenLoss(const TokenLoss& loss, const TokenLossInput& in) {
  const Tensor fixed = in.current.detach();
  ObjectiveConfig config;
  config.surrogate = SurrogateKind::kReinforce;
  config.aggregate = AggregateKind::kFixedLength;
  config.length = 1;
  ObjectiveInput input;
  input.current = in.current;
  input.proximal = input.behaviour = fixed;
  input.advantages = in.weights;
  input.sequence = in.sequence;
  input.sequences = in.sequences;
  switch (loss.kind) {
    case TokenLossKind::kCrossEntropy:
      break;
    case TokenLossKind::kImportanceSampling:
      config.surrogate = SurrogateKind::kClip;
      config.clip_low = config.clip_high = std::numeric_limits<double>::infinity();
      input.proximal = WhereItCounts(in, fixed, in.behaviour);
      break;
    case TokenLossKind::kPpo:
      TakeClip(loss, config);
      input.proximal = WhereItCounts(in, fixed, in.behaviour);
      break;
    case TokenLossKind::kCispo:
      input.advantages = in.weights * (fixed - WhereItCounts(in, fixed, in.behaviour))
                                          .exp()
                                          .clamp(loss.clip_low, loss.clip_high);
      break;
    case TokenLossKind::kDro:
      config.kl = KlKind::kK2;
      config.kl_coefficient = loss.beta;
      input.reference = in.behaviour;
      break;
    case TokenLossKind::kGspo:
      // exp(c - p) is the sequence's ratio then, and its gradient in c is the ratio itself.
      TakeClip(loss, config);
      input.proximal = WhereItCounts(in, fixed, fixed - SequenceLogRatio(in, fixed - in.behaviour));
      break;
  }
  return ComputeObjective(config, input, {.tokens = 1, .sequences = 1}).loss;
}

}  // namespace tidemill
