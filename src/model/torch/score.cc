#include "model/torch/score.h"

#include "model/torch/aten.h"

#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {

Result<std::vector<float>> ScoreTokens(const PolicyWeights& weights,
                                       const std::vector<TokenId>& tokens, double temperature) {
  const ModelConfig& config = weights.config();
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
  return CatchTorch<std::vector<float>>("scoring", [&]() -> Result<std::vector<float>> {
    const at::NoGradGuard no_grad;
    const std::string device = weights.view().embed.device().str();
    const PackedBatch batch = Pack({tokens}, device);
    const int64_t n = static_cast<int64_t>(tokens.size()) - 1;
    const at::Tensor hidden = ForwardHidden(config, weights.view(), batch);
    const at::Tensor logprobs = TokenLogprobs(weights.view(), hidden.narrow(0, 0, n),
                                              batch.tokens.narrow(0, 1, n), temperature)
                                    .logprobs.to(at::kCPU)
                                    .contiguous();
    const float* data = logprobs.data_ptr<float>();
    return std::vector<float>(data, data + n);
  });
}

}  // namespace tidemill
