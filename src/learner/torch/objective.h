// The loss of a batch from the log-probabilities of its tokens, differentiable in those of the
// current policy. What the choices mean is in learner/objective_config.h and docs/objectives.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "learner/objective_config.h"

namespace tidemill {

// Tokens of several sequences in one row, [k] each, of the type of `current`. Only `current`,
// `entropy` and `values` carry gradients. A sequence must be whole: sums over it are taken here.
struct ObjectiveInput {
  at::Tensor current;
  at::Tensor behaviour;
  at::Tensor proximal;
  at::Tensor advantages;
  at::Tensor reference;      // undefined where the config needs none
  at::Tensor mask;           // 0 or 1; undefined: every token counts
  at::Tensor entropy;        // of the distribution at each token; undefined: no entropy term
  at::Tensor values;         // undefined: no value term
  at::Tensor value_targets;  // with `values`
  at::Tensor sequence;       // int64: which sequence each token belongs to, 0 .. sequences-1
  int64_t sequences = 0;
};

// The divisors of the aggregates: those of everything that goes into one optimizer step, so that
// the sum of the losses of its microbatches is the loss of the whole.
struct ObjectiveTotals {
  double tokens = 0;     // N
  double sequences = 0;  // S
};

// Sums over the tokens that count, to be added up over microbatches and divided by `tokens`.
struct ObjectiveSums {
  double tokens = 0;
  double ratio = 0;        // exp(c - p) or the sequence's
  double clipped = 0;      // tokens whose gradient the clipping took away
  double weight = 0;       // of the correction
  double weight_zero = 0;  // tokens the correction took out
  double policy_kl = 0;    // k3 of p against c: how far the step has gone
  double reference_kl = 0;
  double entropy = 0;
  double value_error = 0;  // squared

  void Add(const ObjectiveSums& other);
  // "ratio", "clip_fraction", "correction", "correction_masked", "policy_kl" and, where they apply,
  // "kl", "entropy" and "value_loss".
  void AddMetrics(const ObjectiveConfig& config, std::map<std::string, double>& metrics) const;
};

struct ObjectiveLoss {
  at::Tensor loss;  // a single number
  ObjectiveSums sums;
};

// Throws what libtorch throws.
ObjectiveLoss ComputeObjective(const ObjectiveConfig& config, const ObjectiveInput& input,
                               const ObjectiveTotals& totals);

// b + a (c - b) with a = lag / (lag + 1): between the policy that sampled and the current one,
// which is one step ahead of the proximal, the latter stands at this fraction of the way. `lags` is
// [k].
at::Tensor InterpolateProximal(const at::Tensor& behaviour, const at::Tensor& current,
                               const at::Tensor& lags);

}  // namespace tidemill
