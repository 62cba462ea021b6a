// The losses of learner/token_loss.h as choices of the learner's own objective.
#pragma once

#include <ATen/core/Tensor.h>

#include "learner/token_loss.h"

namespace tidemill {

// [k] each, of one type: the tokens of whole sequences one behind the other.
struct TokenLossInput {
  at::Tensor current;     // p; the gradient flows into it
  at::Tensor weights;     // w of kCrossEntropy; A of all others
  at::Tensor behaviour;   // q; undefined for kCrossEntropy
  at::Tensor ratio_mask;  // of kGspo; undefined else
  at::Tensor sequence;    // int64: which sequence each token belongs to, 0 .. sequences-1
  int64_t sequences = 0;
};

// The sum over all tokens, a single number. Throws what libtorch throws.
at::Tensor ComputeTokenLoss(const TokenLoss& loss, const TokenLossInput& input);

}  // namespace tidemill
