// The model that a GPU benchmark runs: a shape with random bfloat16 weights, made on the GPU, and
// the most that the GPU could do with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/model_config.h"

namespace tidemill {

class PolicyWeights;

struct GpuPolicy {
  std::string shape;
  ModelConfig config;
  int64_t lora_rank = 0;  // of an adapter on all products; 0: none
};

// `shape`: a folder of examples/shapes such as "7b", a folder with a config.json, or such a file.
// "0.5b" needs no file. kNotFound, kInvalid name the file.
Result<GpuPolicy> PolicyOfShape(const std::string& shape, int64_t lora_rank = 0);

// `count` versions of it. With an adapter they share the base.
Result<std::vector<std::shared_ptr<const PolicyWeights>>> RandomVersions(const GpuPolicy& policy,
                                                                         int count);
Result<std::shared_ptr<const PolicyWeights>> RandomGpuWeights(const GpuPolicy& policy);

// Keys and values of a token.
uint64_t CacheBytesOfToken(const ModelConfig& config);

// The bounds by memory (4.3 TB/s) and arithmetic (790 TFLOP/s) of one H200, in tokens a second.
struct GpuLimits {
  double by_bytes = 0;
  double by_arithmetic = 0;
};
// Each step reads all matrices once and the keys and values of all sequences. Without an adapter.
GpuLimits DecodeLimits(const ModelConfig& config, double sequences, double context);
// Steps of so many tokens. Arithmetic: 6 operations for a parameter and token, with an adapter 4.
// Bytes: matrices read forward and backward, gradients written, and the optimizer's pass.
GpuLimits TrainLimits(const GpuPolicy& policy, double tokens, bool moments_in_blocks);
// A copy of all weights (with an adapter: of it) within the GPU, in milliseconds.
double SwapLimitMs(const GpuPolicy& policy);

}  // namespace tidemill
