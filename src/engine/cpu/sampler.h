// Draws a token from a row of logits. The draw is a function of logits, parameters, seed and
// position: no state is kept, so neighbours, restarts and the order of the batch change nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_kernels.h"
#include "engine/decode_backend.h"

namespace tidemill {

// Uniform in [0, 1), by seed and position (splitmix64 of both).
double UniformAt(uint64_t seed, uint64_t position);

// Buffers of a thread.
struct SamplerScratch {
  std::vector<float> exps;
  std::vector<std::pair<float, int32_t>> order, heap;
  std::vector<int32_t> kept;
  std::vector<float> shifted, gathered;  // of DrawControlled
};

// `position` is the place in the sequence the token will have. With temperature 0 the most likely
// token (the first of equals) is taken, and its log-probabilities are those of temperature 1.
// Where the logits are not finite its id is negative. Truncated sampling leaves its support. Where
// `sampling` asks for it, ReportModel.
void DrawToken(const CpuKernels& kernels, std::span<const float> logits,
               const SamplingParams& sampling, uint64_t seed, uint64_t position,
               SamplerScratch& scratch, Drawn& drawn);

// For the token that was drawn: its log-probability at temperature 1, and the `top` most likely
// tokens with theirs. The logits are finite.
void ReportModel(const CpuKernels& kernels, std::span<const float> logits, int32_t top,
                 SamplerScratch& scratch, Drawn& drawn);

}  // namespace tidemill
