// The loss of a batch from the log-probabilities of its tokens, differentiable in those of the
// current policy. What the choices mean is in learner/objective_config.h and docs/objectives.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learner/objective_config.h"
#include "learner/step_figures.h"

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
