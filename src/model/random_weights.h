// The weights of a model that nobody has trained, in memory or as files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/status.h"
#include "model/model_config.h"
#include "model/safetensors.h"

namespace tidemill {

// As transformers initializes: normal(0, initializer_range), norms such that they multiply by 1,
// biases 0. Each number depends on the seed, the tensor's name and its place alone, never on the
// number of threads; types with fewer bits hold the same numbers, rounded.

// Bytes from `first_byte` on of such a tensor (its data is not read), of F32, BF16 or F16.
// `first_byte` is a multiple of 16. Any thread.
void FillRandomPart(const ModelConfig& config, uint64_t seed, const TensorView& tensor,
                    size_t first_byte, std::span<std::byte> out);

// A whole tensor of this name on `threads` threads.
void FillRandomTensor(const ModelConfig& config, uint64_t seed, const TensorView& tensor,
                      int threads, std::span<std::byte> out);

// config.json and the weights in the config's type into `dir`, which is made. A few megabytes of
// them are in memory at a time.
Status WriteRandomModel(const ModelConfig& config, uint64_t seed, int threads,
                        const std::string& dir);

}  // namespace tidemill
