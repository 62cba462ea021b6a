#include "engine/cpu/controlled_draw.h"

#include <algorithm>
#include <cmath>

#include "core/token_support.h"

namespace tidemill {
namespace {

// So far below the others that it is drawn only where nothing else is left.
constexpr float kNotYet = 1e5f;

void Shift(const DrawControls& controls, std::span<float> logits) {
  const auto at = [&](TokenId id) -> float* {
    return id >= 0 && static_cast<size_t>(id) < logits.size() ? &logits[static_cast<size_t>(id)]
                                                              : nullptr;
  };
  for (const TokenCount& use : controls.used) {
    float* logit = at(use.id);
    if (logit == nullptr) continue;
    if (controls.repetition_penalty != 1) {
      *logit =
          *logit > 0 ? *logit / controls.repetition_penalty : *logit * controls.repetition_penalty;
    }
    if (use.drawn == 0) continue;
    *logit -=
        controls.presence_penalty + controls.frequency_penalty * static_cast<float>(use.drawn);
  }
  for (const auto& [id, bias] : controls.logit_bias) {
    if (float* logit = at(id)) *logit += bias;
  }
  for (const TokenId id : controls.not_yet) {
    if (float* logit = at(id)) *logit -= kNotYet;
  }
}

// The log of what exp((logit - largest) · scale) sums up to.
double LogSum(const CpuKernels& kernels, std::span<const float> logits, float scale,
              SamplerScratch& scratch, float& largest) {
  scratch.exps.resize((logits.size() + 63) / 64 * 64);
  const float sum = kernels.exp_row(logits.data(), static_cast<long>(logits.size()), scale,
                                    scratch.exps.data(), &largest);
  return std::log(static_cast<double>(sum));
}

// A support over places of the mask as one over ids.
std::string SupportOfIds(const std::string& places, const TokenMask& mask) {
  const auto runs = DecodeSupport(places, static_cast<int64_t>(mask.count()));
  TM_CHECK(runs.ok(), "what a draw leaves is a support");
  std::vector<int32_t> ids;
  for (const TokenRun& run : *runs) {
    for (int32_t i = 0; i < run.count; ++i) {
      ids.push_back(mask.At(static_cast<size_t>(run.first + i)));
    }
  }
  return EncodeSupport(ids);
}

// Draws among the mask's tokens alone: what it leaves out has no weight at all.
void DrawWithin(const CpuKernels& kernels, std::span<const float> logits,
                const SamplingParams& sampling, const DrawControls& controls, uint64_t seed,
                uint64_t position, SamplerScratch& scratch, Drawn& drawn) {
  const TokenMask& mask = *controls.mask;
  float largest = 0;
  double log_sum = 0;
  const float scale = sampling.temperature > 0 ? 1.0f / sampling.temperature : 1.0f;
  if (sampling.Truncates()) log_sum = LogSum(kernels, logits, scale, scratch, largest);
  mask.Gather(logits, scratch.gathered);
  SamplingParams within = sampling;
  within.top_logprobs = -1;
  DrawToken(kernels, scratch.gathered, within, seed, position, scratch, drawn);
  if (drawn.id < 0) return;
  drawn.id = mask.At(static_cast<size_t>(drawn.id));
  if (sampling.Truncates()) {
    drawn.full_logprob = static_cast<float>(
        (static_cast<double>(logits[static_cast<size_t>(drawn.id)]) - largest) * scale - log_sum);
  }
  const bool truncated = !drawn.support.empty();
  if (!controls.record_support || sampling.temperature <= 0) {
    drawn.support.clear();
  } else {
    drawn.support = truncated ? SupportOfIds(drawn.support, mask) : mask.support();
  }
}

}  // namespace

void DrawControlled(const CpuKernels& kernels, std::span<const float> logits,
                    const SamplingParams& sampling, const DrawControls* controls, uint64_t seed,
                    uint64_t position, SamplerScratch& scratch, Drawn& drawn) {
  if (controls == nullptr) {
    return DrawToken(kernels, logits, sampling, seed, position, scratch, drawn);
  }
  std::span<const float> shifted = logits;
  if (controls->Shifts()) {
    scratch.shifted.assign(logits.begin(), logits.end());
    Shift(*controls, scratch.shifted);
    shifted = scratch.shifted;
  }
  if (controls->mask != nullptr) {
    DrawWithin(kernels, shifted, sampling, *controls, seed, position, scratch, drawn);
  } else {
    SamplingParams plain = sampling;
    plain.top_logprobs = -1;
    DrawToken(kernels, shifted, plain, seed, position, scratch, drawn);
  }
  if (drawn.id >= 0 && sampling.top_logprobs >= 0) {
    ReportModel(kernels, logits, sampling.top_logprobs, scratch, drawn);
  }
}

}  // namespace tidemill
