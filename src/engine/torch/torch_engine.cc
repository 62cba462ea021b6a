#include "engine/torch/torch_engine.h"

#include <algorithm>
#include <random>

#include "engine/batch_engine.h"
#include "engine/cpu/cpu_kernels.h"
#include "model/torch/device.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

bool IsOnGpu(const PolicyWeights& weights) {
  return OnGpu(weights.view().embed);
}

#ifdef TIDEMILL_CUDA
size_t PageBytes(const PolicyWeights& weights) {
  return IsOnGpu(weights) ? CudaPageBytes(weights) : CpuPageBytes(weights);
}
Result<std::unique_ptr<DecodeBackend>> NewBackend(const PolicyWeights& weights,
                                                  const BackendOptions& options) {
  return IsOnGpu(weights) ? NewCudaBackend(weights, options) : NewCpuBackend(weights, options);
}
#else
size_t PageBytes(const PolicyWeights& weights) {
  return CpuPageBytes(weights);
}
Result<std::unique_ptr<DecodeBackend>> NewBackend(const PolicyWeights& weights,
                                                  const BackendOptions& options) {
  if (IsOnGpu(weights)) return Invalid("this program was built without CUDA");
  return NewCpuBackend(weights, options);
}
#endif

}  // namespace

Result<std::unique_ptr<Engine>> NewEngine(std::shared_ptr<const PolicyWeights> weights,
                                          uint64_t version, EngineOptions options) {
  const ModelConfig& config = weights->config();
  if (options.max_context < 0 || options.prefill_chunk < 1 || options.max_running < 1 ||
      options.max_sequences < 1 || options.threads < 1) {
    return Invalid("the engine's limits must be positive");
  }
  if (options.steps_at_once < 0 || options.steps_at_once > 2) {
    return Invalid("steps_at_once must be 1 or 2, got " + std::to_string(options.steps_at_once));
  }
  if (options.versions < 1 || options.versions > 64) {
    return Invalid("an engine holds 1 to 64 versions at once, not " +
                   std::to_string(options.versions));
  }
  if (options.adapters < 0 || options.adapters > 1024) {
    return Invalid("an engine holds up to 1024 adapters at once, not " +
                   std::to_string(options.adapters));
  }
  if (!(options.live_share > 0 && options.live_share < 1)) {
    return Invalid("the share of live sequences must be above 0 and below 1");
  }
  const uint64_t page_bytes = PageBytes(*weights);
  const auto pages_for = [](uint64_t tokens) { return (tokens + kPageSlots - 1) / kPageSlots; };
  // More pages than all sequences could fill are of no use.
  const uint64_t context = static_cast<uint64_t>(
      options.max_context > 0 ? options.max_context : config.max_position_embeddings);
  const uint64_t useful = options.max_sequences * (pages_for(context) + 1);
  const uint64_t pages = std::min({options.cache_bytes / page_bytes, useful, uint64_t{1} << 30});
  const uint64_t fits = pages > 0 ? (pages - 1) * kPageSlots : 0;
  if (options.max_context == 0) options.max_context = static_cast<int32_t>(std::min(context, fits));
  if (options.max_context > config.max_position_embeddings) {
    return Invalid("a context of " + std::to_string(options.max_context) +
                   " tokens is more than the model's " +
                   std::to_string(config.max_position_embeddings));
  }
  if (options.max_context < 2 || static_cast<uint64_t>(options.max_context) > fits) {
    return Invalid("a context of " + std::to_string(context) + " tokens needs a cache of " +
                   std::to_string((pages_for(context) + 1) * page_bytes) + " bytes, not " +
                   std::to_string(options.cache_bytes));
  }
  const uint64_t rows = options.max_running + static_cast<uint64_t>(options.prefill_chunk);
  TM_ASSIGN_OR_RETURN(
      std::unique_ptr<DecodeBackend> backend,
      NewBackend(*weights, {.pages = static_cast<int32_t>(pages),
                            .max_context = options.max_context,
                            .threads = options.threads,
                            .max_decode_rows = static_cast<int32_t>(options.max_running),
                            .max_rows = static_cast<int32_t>(rows),
                            .versions = options.versions,
                            .adapters = options.adapters,
                            .adapter_rank = options.adapter_rank,
                            .fixed_base = options.fixed_base,
                            .int8_weights = options.int8_weights}));
  if (ReplaceBackend != nullptr) backend = ReplaceBackend(std::move(backend));
  if (options.steps_at_once == 0) options.steps_at_once = IsOnGpu(*weights) ? 2 : 1;
  BatchEngineOptions batch{.scheduling = {.pages = static_cast<int32_t>(pages),
                                          .max_context = options.max_context,
                                          .max_running = options.max_running,
                                          .prefill_chunk = options.prefill_chunk,
                                          .live_share = options.live_share,
                                          .cache_seed = std::random_device{}()},
                           .vocabulary = config.vocab_size,
                           .version = version,
                           .versions = options.versions,
                           .adapters = options.adapters,
                           .max_sequences = options.max_sequences,
                           .steps_at_once = options.steps_at_once,
                           .token_bytes = std::move(options.token_bytes)};
  return NewBatchEngine(std::move(batch), std::move(backend));
}

}  // namespace tidemill
