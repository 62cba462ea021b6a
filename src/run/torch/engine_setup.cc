#include "run/torch/engine_setup.h"

#include <string>

#include "model/torch/device.h"
#include "run/torch/make_trainer.h"

namespace tidemill {

Result<EngineOptions> EngineOptionsFrom(const RunConfig& config, int threads,
                                        const Tokenizer& tokenizer) {
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
  options.versions = static_cast<int32_t>(config.engine.versions);
  options.int8_weights = config.engine.weights == "int8";
  options.live_share = config.gateway.share;
  options.token_bytes = [tokenizer](TokenId id) { return std::string(tokenizer.TokenBytes(id)); };
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

ThreadPlan ThreadsFrom(const RunConfig& config) {
  ThreadSettings settings;
  settings.engine = static_cast<int>(config.threads.engine);
  settings.trainer = static_cast<int>(config.threads.trainer);
  settings.boxes = static_cast<int>(config.tools.slots);
  const bool gpu = IsGpu(config.model.device);
  if (gpu && settings.engine == 0) settings.engine = 1;  // they only launch work
  if (gpu && settings.trainer == 0) settings.trainer = 1;
  return PlanThreads(settings, AvailableCores());
}

}  // namespace tidemill
