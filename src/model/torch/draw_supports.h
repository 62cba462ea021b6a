// What tokens were drawn from where sampling left some out, so that their log-probabilities are
// normalised over no more than that.
//
//   logits of some rows --LimitLogits--> the same, far below the target's where it was left out
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/token_support.h"

namespace tidemill {

struct DrawSupports {
  std::vector<std::vector<TokenRun>> sets;
  std::vector<int32_t> set_of;  // by row: its place in `sets`, or -1: drawn from all
};

// Writes into `logits` [n, vocabulary], the rows from `first` on, what has no weight in the
// softmax of logits / temperature wherever the row's set leaves a token out. A target [n] is in
// its set. Entropies stay finite: nothing is infinite.
void LimitLogits(const DrawSupports& supports, int64_t first, const at::Tensor& targets,
                 double temperature, at::Tensor& logits);

}  // namespace tidemill
