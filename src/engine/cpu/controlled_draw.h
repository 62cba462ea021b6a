// A draw from logits that penalties, biases or a constraint changed first.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cpu/sampler.h"
#include "engine/draw_controls.h"

namespace tidemill {

// As DrawToken; `controls` may be null. The model's own log-probabilities (ReportModel) are those
// without controls. Where the sampling truncates, full_logprob is of the shifted logits without
// mask.
void DrawControlled(const CpuKernels& kernels, std::span<const float> logits,
                    const SamplingParams& sampling, const DrawControls* controls, uint64_t seed,
                    uint64_t position, SamplerScratch& scratch, Drawn& drawn);

}  // namespace tidemill
