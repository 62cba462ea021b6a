// Prompts as vectors: how a policy reads them. The policy is the one a run began with and does not
// change, because vectors of different weights do not compare.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/token_id.h"

namespace tidemill {

class PolicyWeights;

// Thread-safe.
class PromptEncoder {
 public:
  // `layers`: how many of the decoder's layers are run, at least 1 and at most all of them; 0:
  // half.
  static Result<PromptEncoder> Make(std::shared_ptr<const PolicyWeights> weights, int layers);

  static constexpr size_t kTokensRead = 4096;  // of a longer prompt the first, and no more than the
                                               // policy's context

  // The mean of the hidden states over the tokens. kInvalid: no tokens. kInternal: libtorch failed.
  Result<std::vector<float>> Encode(const std::vector<TokenId>& ids) const;

 private:
  PromptEncoder(std::shared_ptr<const PolicyWeights> weights, size_t layers)
      : weights_(std::move(weights)), layers_(layers) {}

  std::shared_ptr<const PolicyWeights> weights_;
  size_t layers_;
};

// SHA-256 over the names and bytes of all tensors, adapter included: equal only for equal weights.
Result<std::string> WeightsDigest(const PolicyWeights& weights);

}  // namespace tidemill
