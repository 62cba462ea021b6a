// AdamW's two moments in one byte each: numbers of a block share a float32 scale, their largest.
//
// First moments are a sign and (q / 127)², second ones (q / 255)⁸ of the scale, so that small
// numbers beside a large one keep their first digits. A number between two codes becomes one of
// them by chance, in proportion: rounding is right on average, where rounding to the nearest would
// keep a moment from moving at all. The chance is a hash of step and place, the same in every run.
//
// The CPU's loop (learner/torch/block_moments.cc) and the GPU's (model/cuda/train_adamw.cu) are
// made of these functions. They agree to the last bit but for QuickRoot.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/host_device.h"

namespace tidemill {

inline constexpr int64_t kMomentBlock = 64;
inline constexpr int64_t MomentBlocks(int64_t count) {
  return (count + kMomentBlock - 1) / kMomentBlock;
}

// One parameter's update in one number each: p ← decay·p − rate·m / (√v / root + eps).
struct AdamWUpdate {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};

// The new parameter; the moments are changed in place.
TM_HOST_DEVICE inline float AdamWNumber(const AdamWUpdate& u, float inverse_root, float grad,
                                        float p, float& m, float& v) {
  const float g = grad * u.grad_scale;
  m = u.beta1 * m + (1.0f - u.beta1) * g;
  v = u.beta2 * v + (1.0f - u.beta2) * g * g;
  return u.decay * p - u.rate * m / (std::sqrt(v) * inverse_root + u.eps);
}

// √x. On a GPU to two units in the last place: a number on the very edge of a code may then get
// the code beside it, which stands for nearly the same.
TM_HOST_DEVICE inline float QuickRoot(float x) {
#ifdef __CUDA_ARCH__
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
#else
  return std::sqrt(x);
#endif
}

// From 0 up to 1. At one place, chances of consecutive steps are spread evenly (multiples of the
// golden ratio), so that the errors of rounding a moment again and again cancel instead of adding
// up.
TM_HOST_DEVICE inline float MomentChance(uint32_t step, uint32_t place) {
  uint32_t h = place * 0x9e3779b9u;
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  h = (h ^ (h >> 16)) + step * 0x9e3779b9u;
  return static_cast<float>(static_cast<int32_t>(h >> 8)) * (1.0f / 16777216.0f);
}

// Codes as parts of the scale.
struct FirstMomentCode {
  static constexpr float kMost = 127.0f;
  TM_HOST_DEVICE static float Of(float code) {
    const float x = code * (1.0f / 127.0f);
    return x * x;
  }
  TM_HOST_DEVICE static float Near(float part) { return QuickRoot(part) * kMost; }
};
struct SecondMomentCode {
  static constexpr float kMost = 255.0f;
  TM_HOST_DEVICE static float Of(float code) {
    const float x = code * (1.0f / 255.0f);
    const float xx = x * x, fourth = xx * xx;
    return fourth * fourth;
  }
  TM_HOST_DEVICE static float Near(float part) {
    return QuickRoot(QuickRoot(QuickRoot(part))) * kMost;
  }
};

// The code below or above `part`, which is from 0 to 1.
template <typename Code>
TM_HOST_DEVICE inline float ChooseCode(float part, float chance) {
  const auto whole = static_cast<float>(static_cast<int32_t>(Code::Near(part)));
  const float below = std::min(whole, Code::kMost - 1.0f);
  const float low = Code::Of(below), high = Code::Of(below + 1.0f);
  return below + (part - low > chance * (high - low) ? 1.0f : 0.0f);
}

TM_HOST_DEVICE inline float DecodeFirst(uint8_t code, float scale) {
  const float size = scale * FirstMomentCode::Of(static_cast<float>(code & 0x7f));
  return (code & 0x80) != 0 ? -size : size;
}
TM_HOST_DEVICE inline float DecodeSecond(uint8_t code, float scale) {
  return scale * SecondMomentCode::Of(static_cast<float>(code));
}

// 1 / scale; 0 of a block whose numbers are all 0, or too small for an inverse and for any effect.
TM_HOST_DEVICE inline float InverseScale(float scale) {
  return scale > 1e-37f ? 1.0f / scale : 0.0f;
}
TM_HOST_DEVICE inline uint8_t EncodeFirst(float value, float inverse, float chance) {
  const float part = std::min(std::abs(value) * inverse, 1.0f);
  const float code = ChooseCode<FirstMomentCode>(part, chance);
  return static_cast<uint8_t>(static_cast<int>(code) | static_cast<int>(value < 0) << 7);
}
TM_HOST_DEVICE inline uint8_t EncodeSecond(float value, float inverse, float chance) {
  const float part = std::min(value * inverse, 1.0f);
  const float code = ChooseCode<SecondMomentCode>(part, chance);
  // Nothing is divided by a second moment that was lost.
  return static_cast<uint8_t>(static_cast<int>(part > 0 ? std::max(code, 1.0f) : 0.0f));
}

// Where the two moments of a number take their chances; `index` is its own in its tensor.
TM_HOST_DEVICE inline uint32_t FirstMomentPlace(uint32_t index) {
  return index;
}
TM_HOST_DEVICE inline uint32_t SecondMomentPlace(uint32_t index) {
  return ~index;
}

}  // namespace tidemill
