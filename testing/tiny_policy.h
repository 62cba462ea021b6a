// Small policies and batches for tests of the learner.
#pragma once

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "learner/torch/trainer.h"
#include "model/torch/model.h"
#include "testing/learner_samples.h"
#include "testing/tiny_config.h"

namespace tidemill {

// With weights large enough that outputs differ.
inline std::shared_ptr<const PolicyWeights> TinyWeights(const ModelConfig& config,
                                                        uint64_t seed = 1) {
  ModelConfig wide = config;
  wide.initializer_range = 0.2;
  auto weights = PolicyWeights::NewRandom(wide, seed);
  EXPECT_TRUE(weights.ok()) << weights.status().ToString();
  return *weights;
}

inline NamedTensors WeightsOf(const Trainer& trainer) {
  return (*trainer.ExactSnapshot())->tensors();
}

// Log-probabilities of ids[from..) under `weights` at a temperature.
inline std::vector<float> Logprobs(const PolicyWeights& weights, const std::vector<int32_t>& ids,
                                   size_t from, double temperature) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits =
      Logits(weights.view(), ForwardHidden(weights.config(), weights.view(), Pack({ids})));
  const at::Tensor logprobs = at::log_softmax(logits / temperature, -1);
  std::vector<float> chosen;
  for (size_t i = from; i < ids.size(); ++i) {
    chosen.push_back(logprobs[static_cast<int64_t>(i) - 1][ids[i]].item<float>());
  }
  return chosen;
}

// A sample of one turn, as if `weights` had drawn it.
inline v1::Sample OneTurn(const PolicyWeights& weights, uint64_t group, uint32_t member,
                          double reward, const std::vector<uint32_t>& prompt,
                          const std::vector<uint32_t>& answer, double temperature = 1.0,
                          uint64_t version = 1) {
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  const auto count = static_cast<uint32_t>(answer.size());
  v1::Sample sample = MakeSample(
      group, member, reward, prompt,
      {{answer, Logprobs(weights, ids, prompt.size(), temperature), {{version, count}}, {}, ""}});
  sample.mutable_trajectory()->mutable_sampling()->set_temperature(temperature);
  return sample;
}

// `groups` groups of `members` with answers of different length; an answer is rewarded for its
// share of token 5.
inline v1::Batch RandomBatch(const PolicyWeights& weights, uint64_t seed, uint64_t groups = 3,
                             uint32_t members = 4, double temperature = 1.0) {
  Random random(seed);
  v1::Batch batch;
  batch.set_learner_version(1);
  for (uint64_t g = 0; g < groups; ++g) {
    std::vector<uint32_t> prompt(static_cast<size_t>(random.Between(3, 20)));
    for (uint32_t& id : prompt) id = static_cast<uint32_t>(random.Below(37));
    for (uint32_t m = 0; m < members; ++m) {
      std::vector<uint32_t> answer(static_cast<size_t>(random.Between(1, 19)));
      double fives = 0;
      for (uint32_t& id : answer) {
        id = random.Chance(0.4) ? 5 : static_cast<uint32_t>(random.Below(37));
        fives += id == 5 ? 1.0 / static_cast<double>(answer.size()) : 0;
      }
      *batch.add_samples() = OneTurn(weights, g, m, fives, prompt, answer, temperature);
    }
  }
  return batch;
}

}  // namespace tidemill
