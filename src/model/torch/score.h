// The log-probabilities a model gives to a text, by the plain forward pass.
#pragma once

#include <vector>

#include "core/status.h"
#include "model/token_id.h"

namespace tidemill {

class PolicyWeights;

// Of every token after the first, at `temperature`. kInvalid: fewer than two tokens, more than the
// model's context, or one outside the vocabulary, named.
Result<std::vector<float>> ScoreTokens(const PolicyWeights& weights,
                                       const std::vector<TokenId>& tokens,
                                       double temperature = 1.0);

}  // namespace tidemill
