// The log-probabilities a model gives to a text, by the plain forward pass.
#pragma once

#include <utility>
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

// Of every token after the first, with the `top` most likely tokens in its place, the most likely
// first; none where `top` is 0. Failures as above.
struct TopScores {
  std::vector<float> logprobs;
  std::vector<std::vector<std::pair<TokenId, float>>> top;
};
Result<TopScores> ScoreWithTop(const PolicyWeights& weights, const std::vector<TokenId>& tokens,
                               int top);

}  // namespace tidemill
