// For tests: drives an engine and compares what it gives with the plain forward pass.
#pragma once

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"
#include "testing/gpu_test_kit.h"

namespace tidemill {

// Of every token after the first.
inline std::vector<double> PlainLogprobs(const PolicyWeights& weights,
                                         const std::vector<TokenId>& tokens, double temperature) {
  const PackedBatch batch = Pack({tokens});
  const at::Tensor logits =
      Logits(weights.view(), ForwardHidden(weights.config(), weights.view(), batch));
  const at::Tensor all = at::log_softmax(logits.to(at::kDouble) / temperature, 1);
  std::vector<double> logprobs;
  for (size_t i = 1; i < tokens.size(); ++i) {
    logprobs.push_back(all[static_cast<int64_t>(i) - 1][tokens[i]].item<double>());
  }
  return logprobs;
}

class EngineRun {
 public:
  EngineRun(std::shared_ptr<const PolicyWeights> weights, EngineOptions options)
      : weights_(weights) {
    if (kGpuOnCpu) {  // memory is filled when it is allocated, and every batch size is run once
      options.cache_bytes = std::min<uint64_t>(options.cache_bytes, uint64_t{24} << 20);
      options.max_running = std::min<size_t>(options.max_running, 16);
    }
    auto engine = NewEngine(weights, 1, options);
    TM_CHECK(engine.ok(), engine.status().message());
    engine_ = *std::move(engine);
  }

  Engine& engine() { return *engine_; }

  void Add(SequenceId id, const std::vector<TokenId>& prompt, const TurnParams& turn,
           uint64_t share_group = 0) {
    AddStart({.id = id, .prompt = prompt, .share_group = share_group, .turn = turn});
  }

  void AddStart(SequenceStart start) {
    tokens_[start.id] = start.prompt;
    turns_[start.id] = start.turn;
    const Status status = engine_->Add(std::move(start));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  void Continue(SequenceId id, const std::vector<TokenId>& append, const TurnParams& turn) {
    tokens_[id].insert(tokens_[id].end(), append.begin(), append.end());
    turns_[id] = turn;
    const Status status = engine_->Continue(id, append, turn);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  void Release(SequenceId id) {
    ASSERT_TRUE(engine_->Release(id).ok());
    tokens_.erase(id);
  }

  void Step() {
    auto finished = engine_->Step();
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    for (TurnOutput& turn : *finished) {
      std::vector<TokenId>& tokens = tokens_.at(turn.id);
      Output& output = outputs_[turn.id];
      output.first = tokens.size();
      tokens.insert(tokens.end(), turn.ids.begin(), turn.ids.end());
      output.turn = std::move(turn);
    }
  }

  // Until nothing is left to do; fails instead of going on for ever.
  void Finish() {
    for (int steps = 0; engine_->Work(); ++steps) {
      ASSERT_LT(steps, 100000) << "the engine does not get on";
      ASSERT_NO_FATAL_FAILURE(Step());
    }
  }

  size_t outputs() const { return outputs_.size(); }
  const std::vector<TokenId>& Tokens(SequenceId id) const { return tokens_.at(id); }
  const TurnOutput& Turn(SequenceId id) const { return outputs_.at(id).turn; }

  // The last turn of every sequence.
  void ExpectPlainLogprobs() const {
    for (const auto& [id, output] : outputs_) {
      if (!tokens_.contains(id)) continue;
      const SamplingParams& sampling = turns_.at(id).sampling;
      const double temperature = sampling.temperature > 0 ? sampling.temperature : 1.0;
      const std::vector<double> plain = PlainLogprobs(*weights_, Tokens(id), temperature);
      const std::vector<float>& mine =
          sampling.Truncates() ? output.turn.full_logprobs : output.turn.logprobs;
      ASSERT_EQ(mine.size(), output.turn.ids.size());
      for (size_t i = 0; i < mine.size(); ++i) {
        ASSERT_NEAR(mine[i], plain[output.first - 1 + i], 1e-4)
            << "sequence " << id << " token " << i;
      }
    }
  }

  double LargestDifference(const EngineRun& other, SequenceId id) const {
    double largest = 0;
    for (size_t i = 0; i < Turn(id).logprobs.size(); ++i) {
      largest =
          std::max<double>(largest, std::abs(Turn(id).logprobs[i] - other.Turn(id).logprobs[i]));
    }
    return largest;
  }

 private:
  struct Output {
    size_t first = 0;  // tokens before the turn
    TurnOutput turn;
  };
  std::shared_ptr<const PolicyWeights> weights_;
  std::unique_ptr<Engine> engine_;
  std::map<SequenceId, std::vector<TokenId>> tokens_;
  std::map<SequenceId, TurnParams> turns_;
  std::map<SequenceId, Output> outputs_;
};

}  // namespace tidemill
