#include "cli/role_options.h"

#include "cli/make_trainer.h"
#include "policy/torch/device.h"

namespace tidemill {

Result<EngineOptions> EngineOptionsFrom(const RunConfig& config, int threads) {
  EngineOptions options;
  options.max_context = static_cast<int32_t>(config.rollout.max_context);
  options.max_running = 1024;
  options.prefill_chunk = static_cast<int32_t>(config.rollout.prefill_chunk);
  options.cache_bytes = uint64_t{config.rollout.cache_mb} << 20;
  if (config.rollout.cache_mb == 0) {
    TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
    TM_ASSIGN_OR_RETURN(options.cache_bytes, DefaultCacheBytes(device));
  }
  options.threads = threads;
  return options;
}

EngineThreadOptions EngineThreadOptionsFrom(const RunConfig& config) {
  EngineThreadOptions options;
  options.cache_on_swap =
      config.rollout.cache_on_swap == "keep" ? CacheOnSwap::kKeep : CacheOnSwap::kRebuild;
  // Where every step waits for the samples of its own weights, none may come from older ones.
  options.wait_for_weights = config.run.mode != "async" || config.staleness.max_steps == 0;
  return options;
}

RolloutOptions RolloutOptionsFrom(const RunConfig& config, int32_t max_context) {
  RolloutOptions options;
  options.max_episodes = config.rollout.max_in_flight * 2;
  options.max_context = max_context;
  options.limits.observation_tokens = config.rollout.observation_tokens;
  options.limits.calls_per_turn = config.rollout.calls_per_turn;
  options.limits.tool_retries = config.rollout.tool_retries;
  options.limits.stale_on_unavailable = config.rollout.on_unavailable == "stale";
  options.lease_period = LeasePeriod(config);
  options.call_patience = config.bus.patience;
  return options;
}

ToolExecutorOptions ToolExecutorOptionsFrom(const RunConfig& config, int slots) {
  ToolExecutorOptions options;
  options.tools.limits.wall = milliseconds(config.tools.wall_ms);
  options.tools.limits.cpu = milliseconds(config.tools.cpu_ms);
  options.tools.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  options.tools.limits.processes = config.tools.processes;
  options.tools.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  options.tools.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  options.slots = options.grade_slots = static_cast<size_t>(slots);
  return options;
}

ToolLoopOptions ToolLoopOptionsFrom(const RunConfig& config) {
  ToolLoopOptions options;
  options.lease_period = LeasePeriod(config);
  options.cache_results = config.tools.cache;
  options.wait = {config.tools.wait, config.tools.wait_tail};
  return options;
}

}  // namespace tidemill
