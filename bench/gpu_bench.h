// What a GPU does with a model in the shape of Qwen2-0.5B and random bfloat16 weights. Rates are by
// the wall clock. docs/gpu.md has the numbers and what they are compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/status.h"
#include "policy/model_config.h"

namespace tidemill {

class PolicyWeights;

ModelConfig HalfBillionConfig();
// Drawn on the GPU.
Result<std::shared_ptr<const PolicyWeights>> RandomGpuWeights(const ModelConfig& config,
                                                              uint64_t seed);

struct GpuEngineLoad {
  int running = 256;  // sequences that decode at once; four times as many are asked for
  int prompt = 128;   // shared by groups of 8
  int least_tokens = 128;
  int most_tokens = 384;
};
// One JSON object: tokens a second from the first request to the last token, and while all places
// were taken; milliseconds of a step (median, 99th percentile).
Result<std::string> RunGpuEngineBench(const GpuEngineLoad& load);
// Swapping weights during generation: milliseconds of a swap and of the steps around it. With
// `busy`, something else keeps the GPU busy meanwhile; it is called again and again until the end.
Result<std::string> RunGpuPublishBench(int running, const std::function<Status()>& busy);
// One sequence of `tokens`, most of them prompt.
Result<std::string> RunGpuLongBench(int tokens);

}  // namespace tidemill
