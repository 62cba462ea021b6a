// For tests: the whole gateway over a real engine whose draws are scripted. A backend computes
// nothing; it looks at the tokens in front of a draw and gives the next one of the answer that the
// script has for them.
#pragma once

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/files.h"
#include "engine/batch_engine.h"
#include "engine/engine_port.h"
#include "gateway/gateway.h"
#include "gateway/plain_recorder.h"
#include "model/tokenizer_writer.h"
#include "testing/scripted_draws.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct ScriptedWeights final : Weights {};

class ScriptedBackend final : public DecodeBackend {
 public:
  struct Ready final : ReadyWeights {};

  ScriptedBackend(Tokenizer tokenizer, AnswerScript script, Duration pace)
      : draws_(std::move(tokenizer), std::move(script)), pace_(pace) {}

  Result<std::shared_ptr<ReadyWeights>> Prepare(std::shared_ptr<const Weights>) const override {
    return std::shared_ptr<ReadyWeights>(std::make_shared<Ready>());
  }
  Status Take(ReadyWeights&, int32_t) override { return Ok(); }
  void CopyPage(PageId from, PageId to) override { draws_.CopyPage(from, to); }
  bool Foresees(const SamplingParams&) const override { return false; }

  Status Start(std::span<const StepSegment> segments) override {
    if (pace_ > Duration{}) std::this_thread::sleep_for(pace_);
    std::vector<Drawn> drawn(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      draws_.Write(segments[i]);
      if (segments[i].draw) drawn[i] = Draw(segments[i]);
    }
    done_.push_back(std::move(drawn));
    return Ok();
  }
  Status Finish(std::span<Drawn> drawn) override {
    std::move(done_.front().begin(), done_.front().end(), drawn.begin());
    done_.pop_front();
    return Ok();
  }

 private:
  Drawn Draw(const StepSegment& s) {
    Drawn drawn;
    drawn.logprob = -0.5f;
    drawn.full_logprob = -0.75f;
    drawn.model_logprob = -0.25f;
    drawn.id = draws_.Next(s);
    for (int32_t i = 0; i < s.sampling.top_logprobs; ++i) {
      drawn.top.push_back({.id = (drawn.id + i) % 256, .logprob = -0.25f - static_cast<float>(i)});
    }
    return drawn;
  }

  ScriptedDraws draws_;
  const Duration pace_;
  std::deque<std::vector<Drawn>> done_;
};

// A model directory whose tokens are bytes and whose template is ChatML.
inline Status WriteByteModel(const std::string& dir, int64_t context) {
  TM_ASSIGN_OR_RETURN(const std::string tokenizer,
                      TokenizerJson(ByteTokenizerSpec(
                          {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|other|>"})));
  TM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/tokenizer.json", tokenizer));
  const nlohmann::json config = {{"architectures", {"Qwen2ForCausalLM"}},
                                 {"model_type", "qwen2"},
                                 {"hidden_size", 64},
                                 {"intermediate_size", 128},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"max_position_embeddings", context},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 10000.0},
                                 {"tie_word_embeddings", true},
                                 {"hidden_act", "silu"},
                                 {"eos_token_id", 256},
                                 {"vocab_size", 260}};
  return WriteFileAtomically(dir + "/config.json", config.dump());
}

struct ScriptedOptions {
  int32_t context = 4096;
  int32_t pages = 4096;
  int32_t versions = 1;
  int32_t adapters = 0;                // Then ServedAdapters is there; any path is an adapter
  std::string no_adapter = "missing";  // but this one
  size_t max_running = 256;
  Duration pace{};  // of a step
  GatewayOptions gateway{};
};

class ScriptedServer {
 public:
  ScriptedServer(const std::string& model_dir, ScriptedOptions options, AnswerScript script,
                 TurnRecorder* recorder = nullptr)
      : policy_(ReadServedPolicy(model_dir).value()), plain_(policy_) {
    channel_ = NewLocalWeightChannel();
    auto backend =
        std::make_unique<ScriptedBackend>(policy_.tokenizer, std::move(script), options.pace);
    auto engine = NewBatchEngine(
        {.scheduling = {.pages = options.pages,
                        .max_context = options.context,
                        .max_running = options.max_running,
                        .prefill_chunk = 4096,
                        .live_share = 0.5,
                        .cache_seed = 7},
         .vocabulary = policy_.tokenizer.vocab_size(),
         .version = 1,
         .versions = options.versions,
         .adapters = options.adapters,
         .token_bytes =
             [this](TokenId id) { return std::string(policy_.tokenizer.TokenBytes(id)); }},
        std::move(backend));
    engine_ =
        std::make_unique<EngineThread>(std::move(engine), *channel_, clock_, EngineThreadOptions{});
    if (options.adapters > 0) {
      const auto load = [none = options.no_adapter](
                            const std::string& path) -> Result<std::shared_ptr<const Weights>> {
        if (path == none) return NotFound(path + ": there is no adapter");
        return std::shared_ptr<const Weights>(std::make_shared<ScriptedWeights>());
      };
      adapters_ = std::make_unique<ServedAdapters>(
          *engine_, load,
          ServedAdapterOptions{.model = policy_.name,
                               .most = static_cast<uint32_t>(options.adapters),
                               .by_clients = options.gateway.key_file.empty()});
      options.gateway.adapters = adapters_.get();
    }
    options.gateway.plan.context_tokens = options.context;
    options.gateway.plan.defaults = DefaultsFrom(policy_.generation);
    auto gateway = Gateway::Start(std::move(options.gateway), policy_, *engine_,
                                  recorder != nullptr ? *recorder : plain_, clock_, metrics_);
    TM_CHECK(gateway.ok(), gateway.ok() ? "" : gateway.status().message());
    gateway_ = std::move(*gateway);
  }

  Gateway& gateway() { return *gateway_; }
  EngineThread& engine() { return *engine_; }
  ServedAdapters& adapters() { return *adapters_; }
  Metrics& metrics() { return metrics_; }
  const ServedPolicy& policy() const { return policy_; }
  void Publish(uint64_t version) {
    const Status status =
        channel_->Publish({version, version, std::make_shared<ScriptedWeights>()});
    TM_CHECK(status.ok(), status.message());
  }

 private:
  RealClock clock_;
  Metrics metrics_;
  const ServedPolicy policy_;
  PlainRecorder plain_;
  std::unique_ptr<WeightChannel> channel_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<ServedAdapters> adapters_;
  std::unique_ptr<Gateway> gateway_;
};

}  // namespace tidemill
