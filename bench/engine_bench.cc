#include "bench/engine_bench.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/threads.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

ModelConfig MillionConfig() {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 1000;
  config.hidden_size = 128;
  config.intermediate_size = 384;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 4;
  config.head_dim = 32;
  config.max_position_embeddings = 1024;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  return config;
}

ModelConfig SmallConfig() {
  ModelConfig config = MillionConfig();
  config.vocab_size = 300;
  config.hidden_size = 64;
  config.intermediate_size = 176;
  config.num_layers = 3;
  config.head_dim = 16;
  return config;
}

// The decode step as one writes it first: what the engine is compared with.
class PlainDecoder {
 public:
  PlainDecoder(const PolicyWeights& weights, int64_t batch, int64_t positions)
      : config_(weights.config()), view_(weights.view()) {
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      const std::vector<int64_t> shape{batch, config_.num_heads, positions, config_.head_dim};
      keys_.push_back(at::zeros(shape));
      values_.push_back(at::zeros(shape));
    }
    const RopeFrequencies frequencies = ComputeRopeFrequencies(config_.rope, config_.head_dim);
    inverse_ = at::tensor(at::ArrayRef<float>(frequencies.inverse));
  }

  // tokens int64 [batch], all at `position`; draws the next ones and their log-probabilities.
  std::pair<at::Tensor, at::Tensor> Step(const at::Tensor& tokens, int64_t position) {
    at::Tensor x = at::embedding(view_.embed, tokens);
    const at::Tensor angles = inverse_ * static_cast<double>(position);
    const at::Tensor cos = at::cos(angles), sin = at::sin(angles);
    for (size_t i = 0; i < view_.layers.size(); ++i) {
      const LayerTensors& layer = view_.layers[i];
      x = x + Attend(i, layer, Norm(x, layer.attention_in), position, cos, sin);
      const at::Tensor h = Norm(x, layer.mlp_in);
      x = x +
          at::linear(at::silu(at::linear(h, layer.gate.weight)) * at::linear(h, layer.up.weight),
                     layer.down.weight);
    }
    const at::Tensor logprobs = at::log_softmax(at::linear(Norm(x, view_.norm), view_.head), -1);
    const at::Tensor drawn = at::multinomial(logprobs.exp(), 1);
    return {drawn.squeeze(1), logprobs.gather(1, drawn).squeeze(1)};
  }

 private:
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const {
    return x * at::rsqrt(x.square().mean(-1, true) + config_.rms_norm_eps) * weight;
  }

  at::Tensor Heads(const at::Tensor& x, const LinearTensors& linear) const {
    return at::linear(x, linear.weight, linear.bias)
        .view({x.size(0), config_.num_heads, 1, config_.head_dim});
  }

  static at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const auto halves = x.chunk(2, -1);
    return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
  }

  at::Tensor Attend(size_t i, const LayerTensors& layer, const at::Tensor& x, int64_t position,
                    const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor q = Rotate(Heads(x, layer.q), cos, sin);
    keys_[i].narrow(2, position, 1).copy_(Rotate(Heads(x, layer.k), cos, sin));
    values_[i].narrow(2, position, 1).copy_(Heads(x, layer.v));
    const at::Tensor keys = keys_[i].narrow(2, 0, position + 1);
    const at::Tensor values = values_[i].narrow(2, 0, position + 1);
    const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
    const at::Tensor p = at::softmax(at::matmul(q, keys.transpose(2, 3)) * scale, -1);
    return at::linear(at::matmul(p, values).reshape({x.size(0), config_.q_size()}), layer.o.weight);
  }

  const ModelConfig config_;
  const ModelTensorsView view_;
  std::vector<at::Tensor> keys_, values_;
  at::Tensor inverse_;
};

double PlainRate(const PolicyWeights& weights, const EngineBenchOptions& options) {
  const at::NoGradGuard no_grad;
  PlainDecoder decoder(weights, options.sequences, options.tokens + 1);
  at::Tensor tokens = at::ones({options.sequences}, at::TensorOptions().dtype(at::kLong));
  const double begin = ThreadSeconds();
  for (int64_t position = 0; position < options.tokens; ++position) {
    tokens = decoder.Step(tokens, position).first;
  }
  return options.sequences * options.tokens / (ThreadSeconds() - begin);
}

struct Rates {
  double decode = 0;
  double prefill = 0;
};

struct Load {
  int sequences, prompt, tokens;
};

// Prompts of `prompt` tokens, those of 8 sequences the same. The time until all are filled in is
// not part of the decode rate.
Result<Rates> EngineRates(Engine& engine, const Load& load) {
  for (int i = 0; i < load.sequences; ++i) {
    SequenceStart start{.id = static_cast<SequenceId>(i + 1)};
    start.share_group = static_cast<uint64_t>(1 + i / 8);
    for (int p = 0; p < load.prompt; ++p) start.prompt.push_back((p * 7 + i / 8) % 300);
    start.turn.max_new_tokens = load.tokens;
    start.turn.seed = static_cast<uint64_t>(i);
    TM_RETURN_IF_ERROR(engine.Add(std::move(start)));
  }
  const EngineStats before = engine.Stats();
  const uint64_t sequences = static_cast<uint64_t>(load.sequences);
  const double begin = ThreadSeconds();
  while (engine.Stats().generated_tokens < before.generated_tokens + sequences) {
    TM_ASSIGN_OR_RETURN(const auto finished, engine.Step());
  }
  const double filled = ThreadSeconds();
  const EngineStats then = engine.Stats();
  while (engine.Work()) {
    TM_ASSIGN_OR_RETURN(const auto finished, engine.Step());
  }
  const double end = ThreadSeconds();
  for (uint64_t id = 1; id <= sequences; ++id) TM_RETURN_IF_ERROR(engine.Release(id));
  const auto rate = [](uint64_t tokens, double seconds) {
    return static_cast<double>(tokens) / seconds;
  };
  return Rates{
      .decode = rate(engine.Stats().generated_tokens - then.generated_tokens, end - filled),
      .prefill = rate(then.prefill_tokens - before.prefill_tokens, filled - begin)};
}

}  // namespace

Result<EngineBenchReport> RunEngineBench(const EngineBenchOptions& options) {
  if (options.sequences < 1 || options.tokens < 2 || options.small_sequences < 1 ||
      options.small_prompt < 1 || options.small_tokens < 2 || options.tokens > 1000 ||
      options.small_prompt + options.small_tokens > 1000) {
    return Invalid("the benchmark's sizes must be positive and fit a context of 1000 tokens");
  }
  LimitBlasThreads(1);
  return CatchTorch<EngineBenchReport>("engine bench", [&]() -> Result<EngineBenchReport> {
    at::set_num_threads(1);
    TM_ASSIGN_OR_RETURN(const auto million,
                        PolicyWeights::NewRandom(MillionConfig(), options.seed));
    TM_ASSIGN_OR_RETURN(const auto small, PolicyWeights::NewRandom(SmallConfig(), options.seed));
    EngineBenchReport result;
    result.kernels = BestCpuKernels().name;
    result.parameters = million->config().ParameterCount();
    result.small_parameters = small->config().ParameterCount();
    TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, NewEngine(million, 1, {}));
    TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> small_engine, NewEngine(small, 1, {}));
    // Each three times, in turn, the best one counts: what else the machine does hits them alike,
    // and the first time of the engine also pays for the memory of its cache.
    for (int round = 0; round < 3; ++round) {
      TM_ASSIGN_OR_RETURN(const Rates rates,
                          EngineRates(*engine, {options.sequences, 1, options.tokens}));
      TM_ASSIGN_OR_RETURN(const Rates fast,
                          EngineRates(*small_engine, {options.small_sequences, options.small_prompt,
                                                      options.small_tokens}));
      const double plain = PlainRate(*million, options);
      result.engine_tokens_per_s = std::max(result.engine_tokens_per_s, rates.decode);
      result.plain_tokens_per_s = std::max(result.plain_tokens_per_s, plain);
      result.small_tokens_per_s = std::max(result.small_tokens_per_s, fast.decode);
      result.small_prefill_tokens_per_s = std::max(result.small_prefill_tokens_per_s, fast.prefill);
    }
    result.engine_to_plain = result.engine_tokens_per_s / result.plain_tokens_per_s;
    TM_ASSIGN_OR_RETURN(result.serving, MeasureServing(options.seed));
    return result;
  });
}

std::string EngineBenchReport::ToText() const {
  return fmt::format(
      "engine ({} kernels): {:.0f} tokens/s with {} parameters\n"
      "plain libtorch: {:.0f} tokens/s; ratio {:.2f}\n"
      "{} parameters: {:.0f} tokens/s, prompts {:.0f} tokens/s\n"
      "{}",
      kernels, engine_tokens_per_s, parameters, plain_tokens_per_s, engine_to_plain,
      small_parameters, small_tokens_per_s, small_prefill_tokens_per_s, serving.ToText());
}

std::string EngineBenchReport::ToJson() const {
  return nlohmann::ordered_json{
      {"kernels", kernels},
      {"parameters", parameters},
      {"engine_tokens_per_s", std::round(engine_tokens_per_s)},
      {"plain_tokens_per_s", std::round(plain_tokens_per_s)},
      {"engine_to_plain", engine_to_plain},
      {"small_parameters", small_parameters},
      {"small_tokens_per_s", std::round(small_tokens_per_s)},
      {"small_prefill_tokens_per_s", std::round(small_prefill_tokens_per_s)},
      {"long_prompt_tokens", serving.prompt_tokens},
      {"long_prompt_seconds", serving.prompt_seconds},
      {"long_prompt_cpu_seconds", serving.prompt_cpu_seconds},
      {"cache_hit_rate", serving.hit_rate},
      {"cache_hit_rate_swapping", serving.hit_rate_swapping}}
      .dump();
}

}  // namespace tidemill
