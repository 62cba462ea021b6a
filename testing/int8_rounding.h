// For tests: a policy with its matrices rounded as an engine in eight bits rounds them.
#pragma once

#include "model/torch/aten.h"

#include <memory>
#include <string>

#include "model/torch/model.h"

namespace tidemill {

// Each row of each product's matrix in steps of its largest number over 127. Embedding, norms and
// routers stay; a tied head is rounded by itself.
inline std::shared_ptr<const PolicyWeights> RoundedToSteps(const PolicyWeights& weights) {
  ModelConfig config = weights.config();
  NamedTensors tensors = weights.tensors();
  if (config.tie_word_embeddings) {
    tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  }
  config.tie_word_embeddings = false;
  for (auto& [name, tensor] : tensors) {
    const bool product = name == "lm_head.weight" ||
                         (tensor.dim() == 2 && name.find("layers.") != std::string::npos &&
                          !name.ends_with(".gate.weight"));
    if (!product) continue;
    const at::Tensor largest = std::get<0>(tensor.abs().max(1, true));
    // Halves go away from zero, as in the kernel. at::round takes them to even numbers, and weights
    // that were bfloat16 have many of them.
    tensor = at::floor((tensor * (127.0 / largest)).abs() + 0.5) * at::sign(tensor) *
             (largest / 127.0);
  }
  const auto rounded = PolicyWeights::FromTensors(config, tensors);
  TM_CHECK(rounded.ok(), rounded.status().message());
  return *rounded;
}

}  // namespace tidemill
