#include "model/torch/score.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {

namespace {

constexpr int64_t kTopRows = 256;  // whose logits exist at once

Status CheckScored(const ModelConfig& config, const std::vector<TokenId>& tokens) {
  if (tokens.size() < 2) return Invalid("a score needs at least two tokens");
  if (tokens.size() > static_cast<size_t>(config.max_position_embeddings)) {
    return Invalid(std::to_string(tokens.size()) + " tokens are more than the model's context of " +
                   std::to_string(config.max_position_embeddings));
  }
  for (const TokenId token : tokens) {
    if (token < 0 || token >= config.vocab_size) {
      return Invalid("token " + std::to_string(token) + " is not in the vocabulary of " +
                     std::to_string(config.vocab_size));
    }
  }
  return Ok();
}

// The hidden states that predict every token after the first, and these tokens.
struct Predicted {
  at::Tensor hidden;
  at::Tensor targets;
};

Predicted Predict(const PolicyWeights& weights, const std::vector<TokenId>& tokens) {
  const PackedBatch batch = Pack({tokens}, weights.view().embed.device().str());
  const int64_t n = static_cast<int64_t>(tokens.size()) - 1;
  return {ForwardHidden(weights.config(), weights.view(), batch).narrow(0, 0, n),
          batch.tokens.narrow(0, 1, n)};
}

std::vector<float> HostFloats(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kFloat).contiguous();
  const float* data = host.data_ptr<float>();
  return {data, data + host.numel()};
}

void AddTop(const at::Tensor& logits, int top, TopScores& scores) {
  const auto [values, places] = at::log_softmax(logits, -1).topk(top, -1);
  const std::vector<float> logprobs = HostFloats(values);
  const at::Tensor ids = places.to(at::kCPU).contiguous();
  const int64_t* id = ids.data_ptr<int64_t>();
  for (size_t i = 0; i < logprobs.size(); ++i) {
    if (i % static_cast<size_t>(top) == 0) scores.top.emplace_back();
    scores.top.back().emplace_back(static_cast<TokenId>(id[i]), logprobs[i]);
  }
}

}  // namespace

Result<std::vector<float>> ScoreTokens(const PolicyWeights& weights,
                                       const std::vector<TokenId>& tokens, double temperature) {
  TM_RETURN_IF_ERROR(CheckScored(weights.config(), tokens));
  return CatchTorch<std::vector<float>>("scoring", [&]() -> Result<std::vector<float>> {
    const at::NoGradGuard no_grad;
    const Predicted predicted = Predict(weights, tokens);
    return HostFloats(
        TokenLogprobs(weights.view(), predicted.hidden, predicted.targets, temperature).logprobs);
  });
}

Result<TopScores> ScoreWithTop(const PolicyWeights& weights, const std::vector<TokenId>& tokens,
                               int top) {
  TM_RETURN_IF_ERROR(CheckScored(weights.config(), tokens));
  return CatchTorch<TopScores>("scoring", [&]() -> Result<TopScores> {
    const at::NoGradGuard no_grad;
    const Predicted predicted = Predict(weights, tokens);
    TopScores scores;
    scores.logprobs =
        HostFloats(TokenLogprobs(weights.view(), predicted.hidden, predicted.targets).logprobs);
    const int most = std::min<int>(top, static_cast<int>(weights.config().vocab_size));
    for (int64_t from = 0; most > 0 && from < predicted.hidden.size(0); from += kTopRows) {
      const int64_t rows = std::min(kTopRows, predicted.hidden.size(0) - from);
      AddTop(Logits(weights.view(), predicted.hidden.narrow(0, from, rows)), most, scores);
    }
    return scores;
  });
}

}  // namespace tidemill
