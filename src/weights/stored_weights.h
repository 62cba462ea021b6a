// Weights that lie in a file and nowhere else: what ranks of another program publish, for whoever
// reads files.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/token_id.h"
#include "model/weights.h"

namespace tidemill {

// A model directory with one safetensors file.
struct StoredModel {
  std::string folder;
  uint64_t bytes = 0;    // of model.safetensors
  std::string checksum;  // its XXH3, 64 bits, hex
  // A text with the log-probability that the weights give to each token but the first.
  std::vector<TokenId> canary_ids;
  std::vector<float> canary_logprobs;
};

// `discard` is called when nobody needs the directory any more.
class StoredWeights final : public Weights {
 public:
  StoredWeights(StoredModel model, std::function<void()> discard)
      : model_(std::move(model)), discard_(std::move(discard)) {}
  ~StoredWeights() override {
    if (discard_) discard_();
  }
  const StoredModel& model() const { return model_; }

 private:
  const StoredModel model_;
  const std::function<void()> discard_;
};

}  // namespace tidemill
