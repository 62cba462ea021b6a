#include "bench/gpu_bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench/gpu_trace.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "model/cuda/weight_layout.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

std::vector<TokenId> Prompt(int length, uint64_t seed, int64_t vocabulary) {
  Random random(seed);
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) {
    prompt.push_back(static_cast<TokenId>(random.Below(static_cast<uint64_t>(vocabulary))));
  }
  return prompt;
}

// The steps that are traced, with every place taken.
constexpr uint64_t kTraceFrom = 400, kTraceTo = 432;

SequenceStart Request(uint64_t id, const GpuEngineLoad& load, const ModelConfig& config) {
  SequenceStart start{.id = id};
  start.share_group = 1 + id / 8;
  start.prompt = Prompt(load.prompt, start.share_group, config.vocab_size);
  const uint64_t span = static_cast<uint64_t>(load.most_tokens - load.least_tokens) + 1;
  start.turn.max_new_tokens = load.least_tokens + static_cast<int32_t>(id * 7919 % span);
  start.turn.stop_ids = {151643, 151645};
  start.turn.seed = id;
  return start;
}

EngineOptions OptionsFor(int running, int context) {
  EngineOptions options;
  options.max_context = context;
  options.max_running = static_cast<size_t>(running);
  options.prefill_chunk = 4096;
  // 12 KiB a token, and a quarter more than all running sequences can hold.
  options.cache_bytes =
      static_cast<uint64_t>(running) * static_cast<uint64_t>(context) * 12288 * 5 / 4 + (1 << 24);
  return options;
}

}  // namespace

ModelConfig HalfBillionConfig() {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 151936;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.num_layers = 24;
  config.num_heads = 14;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.max_position_embeddings = 32768;
  config.rope.theta = 1e6;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  return config;
}

Result<std::shared_ptr<const PolicyWeights>> RandomGpuWeights(const ModelConfig& config,
                                                              uint64_t seed) {
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("random weights", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    at::manual_seed(seed);
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
    const WeightLayout layout = MakeWeightLayout(config);
    const at::Tensor block = at::zeros({static_cast<int64_t>(layout.numbers)}, options);
    NamedTensors tensors;
    for (const WeightPlace& place : layout.places) {
      at::Tensor tensor =
          block.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.numbers()))
              .view(place.shape);
      if (place.name.ends_with("norm.weight")) {
        tensor.fill_(1.0);
      } else if (!place.name.ends_with(".bias")) {
        tensor.normal_(0, config.initializer_range);
      }
      tensors.emplace(place.name, tensor);
    }
    return PolicyWeights::FromTensors(config, std::move(tensors));
  });
}

Result<std::string> RunGpuEngineBench(const GpuEngineLoad& load) {
  const ModelConfig config = HalfBillionConfig();
  TM_ASSIGN_OR_RETURN(const auto weights, RandomGpuWeights(config, 1));
  const double started = Now();
  TM_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      NewEngine(weights, 1, OptionsFor(load.running, load.prompt + load.most_tokens + 16)));
  const double begin = Now();
  const auto total = static_cast<uint64_t>(load.running) * 4;
  for (uint64_t id = 1; id <= total; ++id) {
    TM_RETURN_IF_ERROR(engine->Add(Request(id, load, config)));
  }
  std::vector<double> steps;  // milliseconds
  double full_seconds = 0;
  uint64_t full_tokens = 0, before = 0;
  double context = 0;
  nlohmann::ordered_json trace;
  while (engine->Work()) {
    const uint64_t number = engine->Stats().steps;
    if (load.trace && number == kTraceFrom) BeginGpuTrace();
    if (load.trace && number == kTraceTo) {
      TM_ASSIGN_OR_RETURN(trace, EndGpuTrace());
    }
    const double step_begin = Now();
    TM_ASSIGN_OR_RETURN(const std::vector<TurnOutput> finished, engine->Step());
    for (const TurnOutput& turn : finished) {
      context += static_cast<double>(load.prompt) + static_cast<double>(turn.ids.size()) / 2;
      TM_RETURN_IF_ERROR(engine->Release(turn.id));
    }
    const double seconds = Now() - step_begin;
    const EngineStats stats = engine->Stats();
    if (stats.waiting > 0 && stats.steps > 16) {
      full_seconds += seconds;
      full_tokens += stats.generated_tokens - before;
    }
    before = stats.generated_tokens;
    steps.push_back(seconds * 1e3);
  }
  const double seconds = Now() - begin;
  const EngineStats stats = engine->Stats();
  nlohmann::ordered_json result{
      {"bench", "engine"},
      {"sequences", load.running},
      {"tokens_per_s", std::round(static_cast<double>(stats.generated_tokens) / seconds)},
      {"tokens_per_s_while_full",
       full_seconds > 0 ? std::round(static_cast<double>(full_tokens) / full_seconds) : 0},
      {"generated", stats.generated_tokens},
      {"prefilled", stats.prefill_tokens},
      {"steps", stats.steps},
      {"step_ms_median", Quantile(steps, 0.5)},
      {"step_ms_p99", Quantile(steps, 0.99)},
      {"mean_context", context / static_cast<double>(total)},
      {"start_seconds", begin - started}};
  if (load.trace) result["trace"] = trace;
  return result.dump();
}

Result<std::string> RunGpuPublishBench(int running, const std::function<Status()>& busy) {
  const ModelConfig config = HalfBillionConfig();
  std::vector<std::shared_ptr<const PolicyWeights>> versions;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    TM_ASSIGN_OR_RETURN(auto weights, RandomGpuWeights(config, seed));
    versions.push_back(std::move(weights));
  }
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                      NewEngine(versions[0], 1, OptionsFor(running, 1024)));
  const GpuEngineLoad load{
      .running = running, .prompt = 128, .least_tokens = 700, .most_tokens = 800};
  for (int id = 1; id <= running; ++id) {
    TM_RETURN_IF_ERROR(engine->Add(Request(static_cast<uint64_t>(id), load, config)));
  }
  std::atomic<bool> stop{false};
  Status busy_status;
  int64_t busy_rounds = 0;
  std::thread other([&] {
    while (busy && !stop && busy_status.ok()) {
      busy_status = busy();
      ++busy_rounds;
    }
  });
  std::vector<double> swaps, steps;
  Status failed;
  for (int step = 0; step < 600 && engine->Work() && failed.ok(); ++step) {
    if (step > 50 && step % 10 == 0) {
      const uint64_t version = static_cast<uint64_t>(step) / 10;
      failed = engine->SwapWeights(versions[version % 2], version, CacheOnSwap::kKeep);
      swaps.push_back(engine->Stats().pause_seconds * 1e3);
    }
    const double stepping = Now();
    if (failed.ok()) failed = engine->Step().status();
    if (step > 50) steps.push_back((Now() - stepping) * 1e3);
  }
  stop = true;
  other.join();
  TM_RETURN_IF_ERROR(failed);
  TM_RETURN_IF_ERROR(busy_status);
  return nlohmann::ordered_json{{"bench", "publish"},
                                {"sequences", running},
                                {"learner", static_cast<bool>(busy)},
                                {"learner_steps", busy_rounds},
                                {"swaps", swaps.size()},
                                {"swap_ms_median", Quantile(swaps, 0.5)},
                                {"swap_ms_p99", Quantile(swaps, 0.99)},
                                {"step_ms_median", Quantile(steps, 0.5)},
                                {"step_ms_p99", Quantile(steps, 0.99)}}
      .dump();
}

Result<std::string> RunGpuLongBench(int tokens) {
  const ModelConfig config = HalfBillionConfig();
  TM_ASSIGN_OR_RETURN(const auto weights, RandomGpuWeights(config, 1));
  EngineOptions options = OptionsFor(8, tokens);
  options.prefill_chunk = 8192;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, NewEngine(weights, 1, options));
  constexpr int kNew = 128;
  SequenceStart start{.id = 1};
  start.prompt = Prompt(tokens - kNew - 1, 3, config.vocab_size);
  start.turn.max_new_tokens = kNew;
  TM_RETURN_IF_ERROR(engine->Add(std::move(start)));
  const double begin = Now();
  while (engine->Stats().generated_tokens == 0) TM_RETURN_IF_ERROR(engine->Step().status());
  const double filled = Now();
  while (engine->Work()) TM_RETURN_IF_ERROR(engine->Step().status());
  const double end = Now();
  return nlohmann::ordered_json{
      {"bench", "long"},
      {"tokens", tokens},
      {"prefill_tokens_per_s", std::round((tokens - kNew) / (filled - begin))},
      {"decode_ms_per_token", (end - filled) * 1e3 / (kNew - 1)}}
      .dump();
}

}  // namespace tidemill
