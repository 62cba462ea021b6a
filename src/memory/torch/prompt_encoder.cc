#include "memory/torch/prompt_encoder.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "core/hash.h"
#include "model/torch/catch.h"
#include "model/torch/lora.h"
#include "model/torch/model.h"

namespace tidemill {

Result<PromptEncoder> PromptEncoder::Make(std::shared_ptr<const PolicyWeights> weights,
                                          int layers) {
  const int all = static_cast<int>(weights->view().layers.size());
  if (layers == 0) layers = std::max(1, (all + 1) / 2);
  if (layers < 1 || layers > all) {
    return Invalid("the policy has " + std::to_string(all) + " layers, not " +
                   std::to_string(layers));
  }
  return PromptEncoder(std::move(weights), static_cast<size_t>(layers));
}

Result<std::vector<float>> PromptEncoder::Encode(const std::vector<TokenId>& ids) const {
  if (ids.empty()) return Invalid("a prompt without tokens has no vector");
  const auto context = static_cast<size_t>(weights_->config().max_position_embeddings);
  const size_t read = std::min({ids.size(), context, kTokensRead});
  const std::vector<TokenId> first(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(read));
  return CatchTorch<std::vector<float>>(
      "the vector of a prompt", [&]() -> Result<std::vector<float>> {
        const at::NoGradGuard no_gradient;
        ModelTensorsView view = weights_->view();
        view.layers.resize(layers_);
        ModelConfig config = weights_->config();
        config.num_layers = static_cast<int64_t>(layers_);
        const at::Tensor hidden =
            ForwardHidden(config, view, Pack({first}, view.embed.device().str()));
        const at::Tensor mean = hidden.to(at::kFloat).mean(0).to(at::kCPU).contiguous();
        const float* numbers = mean.data_ptr<float>();
        return std::vector<float>(numbers, numbers + mean.numel());
      });
}

Result<std::string> WeightsDigest(const PolicyWeights& weights) {
  NamedTensors all = weights.tensors();
  if (weights.adapter() != nullptr) {
    for (const auto& [name, tensor] : weights.adapter()->tensors) all["adapter." + name] = tensor;
  }
  TM_ASSIGN_OR_RETURN(const HostTensors host, ToHost(all));
  std::string digests;
  for (const auto& [name, tensor] : host.tensors) {
    digests += name + " " +
               Sha256Hex({static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()}) + "\n";
  }
  return Sha256Hex(digests);
}

}  // namespace tidemill
