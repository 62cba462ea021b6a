#include "bench/gpu_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench/gpu_trace.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
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

SequenceStart Request(uint64_t id, const GpuEngineLoad& load) {
  const ModelConfig& config = load.policy.config;
  SequenceStart start{.id = id};
  start.share_group = 1 + id / 8;
  start.prompt = Prompt(load.prompt, start.share_group, config.vocab_size);
  const uint64_t span = static_cast<uint64_t>(load.most_tokens - load.least_tokens) + 1;
  start.turn.max_new_tokens = load.least_tokens + static_cast<int32_t>(id * 7919 % span);
  if (config.vocab_size > 151645) start.turn.stop_ids = {151643, 151645};
  start.turn.seed = id;
  return start;
}

EngineOptions OptionsFor(const ModelConfig& config, int running, int context) {
  EngineOptions options;
  options.max_context = context;
  options.max_running = static_cast<size_t>(running);
  options.prefill_chunk = 4096;
  // A quarter more than all running sequences can hold.
  const uint64_t tokens = static_cast<uint64_t>(running) * static_cast<uint64_t>(context);
  options.cache_bytes = tokens * CacheBytesOfToken(config) * 5 / 4 + (1 << 24);
  return options;
}

}  // namespace

Result<std::string> RunGpuEngineBench(const GpuEngineLoad& load) {
  const ModelConfig& config = load.policy.config;
  TM_ASSIGN_OR_RETURN(auto weights, RandomGpuWeights(load.policy));
  const double started = Now();
  const int length = load.prompt + load.most_tokens + 16;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                      NewEngine(std::move(weights), 1, OptionsFor(config, load.running, length)));
  const double begin = Now();
  const auto total = static_cast<uint64_t>(load.running) * 4;
  for (uint64_t id = 1; id <= total; ++id) {
    TM_RETURN_IF_ERROR(engine->Add(Request(id, load)));
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
  const double mean_context = context / static_cast<double>(total);
  const GpuLimits limits = DecodeLimits(config, load.running, mean_context);
  nlohmann::ordered_json result{
      {"bench", "engine"},
      {"shape", load.policy.shape},
      {"lora_rank", load.policy.lora_rank},
      {"sequences", load.running},
      {"tokens_per_s", std::round(static_cast<double>(stats.generated_tokens) / seconds)},
      {"tokens_per_s_while_full",
       full_seconds > 0 ? std::round(static_cast<double>(full_tokens) / full_seconds) : 0},
      {"limit_by_bytes", std::round(limits.by_bytes)},
      {"limit_by_arithmetic", std::round(limits.by_arithmetic)},
      {"generated", stats.generated_tokens},
      {"prefilled", stats.prefill_tokens},
      {"steps", stats.steps},
      {"step_ms_median", Quantile(steps, 0.5)},
      {"step_ms_p99", Quantile(steps, 0.99)},
      {"mean_context", mean_context},
      {"start_seconds", begin - started}};
  if (load.trace) result["trace"] = trace;
  return result.dump();
}

Result<std::string> RunGpuPublishBench(const GpuPolicy& policy, int running,
                                       const std::function<Status()>& busy) {
  TM_ASSIGN_OR_RETURN(const auto versions, RandomVersions(policy, 2));
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                      NewEngine(versions[0], 1, OptionsFor(policy.config, running, 1024)));
  const GpuEngineLoad load{
      .policy = policy, .running = running, .prompt = 128, .least_tokens = 700, .most_tokens = 800};
  for (int id = 1; id <= running; ++id) {
    TM_RETURN_IF_ERROR(engine->Add(Request(static_cast<uint64_t>(id), load)));
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
                                {"shape", policy.shape},
                                {"lora_rank", policy.lora_rank},
                                {"sequences", running},
                                {"learner", static_cast<bool>(busy)},
                                {"learner_steps", busy_rounds},
                                {"swaps", swaps.size()},
                                {"swap_ms_median", Quantile(swaps, 0.5)},
                                {"swap_ms_p99", Quantile(swaps, 0.99)},
                                {"swap_ms_limit", SwapLimitMs(policy)},
                                {"step_ms_median", Quantile(steps, 0.5)},
                                {"step_ms_p99", Quantile(steps, 0.99)}}
      .dump();
}

Result<std::string> RunGpuLongBench(const GpuPolicy& policy, int tokens) {
  TM_ASSIGN_OR_RETURN(auto weights, RandomGpuWeights(policy));
  EngineOptions options = OptionsFor(policy.config, 8, tokens);
  options.prefill_chunk = 8192;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                      NewEngine(std::move(weights), 1, options));
  constexpr int kNew = 128;
  SequenceStart start{.id = 1};
  start.prompt = Prompt(tokens - kNew - 1, 3, policy.config.vocab_size);
  start.turn.max_new_tokens = kNew;
  TM_RETURN_IF_ERROR(engine->Add(std::move(start)));
  const double begin = Now();
  while (engine->Stats().generated_tokens == 0) TM_RETURN_IF_ERROR(engine->Step().status());
  const double filled = Now();
  while (engine->Work()) TM_RETURN_IF_ERROR(engine->Step().status());
  const double end = Now();
  const GpuLimits limits = DecodeLimits(policy.config, 1, tokens);
  return nlohmann::ordered_json{
      {"bench", "long"},
      {"shape", policy.shape},
      {"tokens", tokens},
      {"prefill_tokens_per_s", std::round((tokens - kNew) / (filled - begin))},
      {"decode_ms_per_token", (end - filled) * 1e3 / (kNew - 1)},
      {"decode_ms_limit", 1e3 / std::min(limits.by_bytes, limits.by_arithmetic)}}
      .dump();
}

}  // namespace tidemill
