#include "learner/torch/objective.h"

#include "model/torch/aten.h"

#include <torch/torch.h>

#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

using at::Tensor;

// Everything the parts of the loss share.
struct Context {
  const ObjectiveConfig& config;
  const ObjectiveInput& in;
  Tensor mask;    // [k], always defined
  Tensor counts;  // [sequences]: n, at least 1

  // The mean over each token's sequence, for each token.
  Tensor SequenceMean(const Tensor& values) const {
    const Tensor sums =
        torch::zeros({in.sequences}, values.options()).index_add(0, in.sequence, mask * values);
    return (sums / counts).index_select(0, in.sequence);
  }
};

struct Surrogate {
  Tensor loss;     // [k]
  Tensor ratio;    // [k], no gradient
  Tensor clipped;  // [k], 1 where clipping took the gradient away; no gradient
};

Surrogate ComputeSurrogate(const Context& context) {
  const ObjectiveConfig& config = context.config;
  const ObjectiveInput& in = context.in;
  const Tensor difference = in.current - in.proximal;
  const Tensor log_ratio =
      config.ratio == RatioKind::kToken ? difference : context.SequenceMean(difference);
  const Tensor ratio = log_ratio.exp();
  const Tensor fixed = ratio.detach();
  switch (config.surrogate) {
    case SurrogateKind::kClip: {
      const Tensor plain = ratio * in.advantages;
      const Tensor limited = ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * in.advantages;
      return {-torch::min(plain, limited), fixed, (limited < plain).detach().to(fixed.dtype())};
    }
    case SurrogateKind::kCispo: {
      const double limit = 1 + config.clip_high;
      return {-fixed.clamp_max(limit) * in.advantages * in.current, fixed,
              (fixed > limit).to(fixed.dtype())};
    }
    case SurrogateKind::kReinforce:
      return {-in.advantages * in.current, fixed, torch::zeros_like(fixed)};
  }
  TM_CHECK(false, "a surrogate that does not exist");
}

Tensor Correction(const Context& context) {
  const ObjectiveConfig& config = context.config;
  const Tensor log_rho = (context.in.proximal - context.in.behaviour).detach();
  const auto within = [&](const Tensor& ratio) {
    return (ratio >= config.low).logical_and(ratio <= config.high).to(ratio.dtype());
  };
  switch (config.correction) {
    case CorrectionKind::kNone:
      return torch::ones_like(log_rho);
    case CorrectionKind::kDecoupled:
      return log_rho.exp();
    case CorrectionKind::kTruncated:
      return log_rho.exp().clamp_max(config.cap);
    case CorrectionKind::kMaskedToken: {
      const Tensor rho = log_rho.exp();
      return torch::where(within(rho) > 0, rho, torch::zeros_like(rho));
    }
    case CorrectionKind::kMaskedSequence:
      return within(context.SequenceMean(log_rho).exp());
  }
  TM_CHECK(false, "a correction that does not exist");
}

Tensor KlTerm(const Context& context) {
  Tensor difference = context.in.current - context.in.reference;  // c - f
  switch (context.config.kl) {
    case KlKind::kNone:
      return torch::zeros_like(difference);
    case KlKind::kK1:
      return difference;
    case KlKind::kK2:
      return 0.5 * difference * difference;
    case KlKind::kK3:
      return (-difference).exp() + difference - 1;
  }
  TM_CHECK(false, "a KL estimate that does not exist");
}

Tensor Aggregate(const Context& context, const Tensor& terms, const ObjectiveTotals& totals) {
  // `where`, not a product: a masked token may hold anything, even what is no number.
  const Tensor counted = torch::where(context.mask > 0, terms, torch::zeros_like(terms));
  switch (context.config.aggregate) {
    case AggregateKind::kSequenceMean:
      return (counted / context.counts.index_select(0, context.in.sequence)).sum() /
             totals.sequences;
    case AggregateKind::kTokenMean:
      return counted.sum() / totals.tokens;
    case AggregateKind::kFixedLength:
      return counted.sum() / (totals.sequences * context.config.length);
  }
  TM_CHECK(false, "an aggregate that does not exist");
}

}  // namespace

ObjectiveLoss ComputeObjective(const ObjectiveConfig& config, const ObjectiveInput& in,
                               const ObjectiveTotals& totals) {
  Context context{config, in, in.mask.defined() ? in.mask : torch::ones_like(in.current.detach()),
                  Tensor()};
  context.counts = torch::zeros({in.sequences}, context.mask.options())
                       .index_add(0, in.sequence, context.mask)
                       .clamp_min(1);
  const Surrogate surrogate = ComputeSurrogate(context);
  const Tensor weight = Correction(context);
  Tensor terms = weight * surrogate.loss;
  const Tensor zero = torch::zeros_like(context.mask);
  Tensor reference_kl = zero;
  if (config.NeedsReference()) {
    const Tensor kl = KlTerm(context);
    terms = terms + config.kl_coefficient * kl;
    reference_kl = kl.detach();
  }
  if (in.entropy.defined() && config.entropy_coefficient != 0) {
    terms = terms - config.entropy_coefficient * in.entropy;
  }
  Tensor value_error = zero;
  if (in.values.defined()) {
    const Tensor error = in.values - in.value_targets;
    terms = terms + config.value_coefficient * 0.5 * error * error;
    value_error = (error * error).detach();
  }
  ObjectiveLoss result;
  result.loss = Aggregate(context, terms, totals);

  const Tensor moved = (in.current - in.proximal).detach();
  const Tensor entropy = in.entropy.defined() ? in.entropy.detach() : zero;
  const Tensor stacked = torch::stack({context.mask, surrogate.ratio, surrogate.clipped, weight,
                                       (weight == 0).to(weight.dtype()), moved.exp() - moved - 1,
                                       reference_kl, entropy, value_error});
  const Tensor counted = torch::where(context.mask > 0, stacked, torch::zeros_like(stacked));
  const Tensor sums = HostCopy(counted.to(torch::kFloat64).sum(1));
  const double* sum = sums.data_ptr<double>();
  result.sums = {sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7], sum[8]};
  return result;
}

Tensor InterpolateProximal(const Tensor& behaviour, const Tensor& current, const Tensor& lags) {
  const Tensor fraction = lags / (lags + 1);
  return behaviour + fraction * (current.detach() - behaviour);
}

}  // namespace tidemill
