// A policy of this program as the model of a scripted server: whoever uses the server gets what the
// weights it was given really draw.
#pragma once

#include "model/torch/aten.h"

#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/torch/model.h"
#include "model/torch/score.h"
#include "testing/ledger_backend.h"
#include "testing/scripted_inference.h"

namespace tidemill {

// Belongs to one thread at a time.
class DrawnPolicy final : public ScriptedModel {
 public:
  bool Load(const std::string& path) override {
    const bool file = path.ends_with(".safetensors");
    auto loaded =
        PolicyWeights::Load(file ? std::filesystem::path(path).parent_path().string() : path);
    if (!loaded.ok()) return false;
    weights_ = std::move(*loaded);
    return true;
  }
  Drawn Draw(std::span<const TokenId> before, double temperature, uint64_t seed) override {
    const at::NoGradGuard no_grad;
    const PackedBatch batch = Pack({{before.begin(), before.end()}});
    const at::Tensor hidden = ForwardHidden(weights_->config(), weights_->view(), batch);
    const at::Tensor last = Logits(weights_->view(), hidden.narrow(0, hidden.size(0) - 1, 1));
    const bool greedy = temperature == 0;
    const at::Tensor logprobs =
        torch::log_softmax(last[0] / (greedy ? 1.0 : temperature), 0).to(torch::kFloat64);
    Drawn drawn;
    drawn.id = greedy ? logprobs.argmax().item<TokenId>()
                      : Pick(logprobs, LedgerMix(seed, static_cast<uint64_t>(before.size())));
    drawn.logprob = logprobs[drawn.id].item<float>();
    return drawn;
  }
  std::vector<float> Score(const std::vector<TokenId>& ids) override {
    return ScoreTokens(*weights_, ids).value();
  }

 private:
  static TokenId Pick(const at::Tensor& logprobs, uint64_t hash) {
    const at::Tensor sums = logprobs.exp().cumsum(0);
    const double at = static_cast<double>(hash >> 11) / static_cast<double>(uint64_t{1} << 53);
    const auto place = torch::searchsorted(sums, torch::full({1}, at, torch::kFloat64));
    return std::min(place.item<TokenId>(), static_cast<TokenId>(logprobs.size(0) - 1));
  }

  std::shared_ptr<const PolicyWeights> weights_;
};

}  // namespace tidemill
