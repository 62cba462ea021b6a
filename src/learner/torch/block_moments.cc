#include "learner/torch/block_moments.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

// From 0 up to 1. At one place, chances of consecutive steps are spread evenly (multiples of the
// golden ratio), so that the errors of rounding a moment again and again cancel instead of adding
// up.
inline float Chance(uint32_t step, uint32_t place) {
  uint32_t h = place * 0x9e3779b9u;
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  h = (h ^ (h >> 16)) + step * 0x9e3779b9u;
  return static_cast<float>(static_cast<int32_t>(h >> 8)) * (1.0f / 16777216.0f);
}

inline float FirstOf(float code) {
  const float x = code * (1.0f / 127.0f);
  return x * x;
}

inline float SecondOf(float code) {
  const float x = code * (1.0f / 255.0f);
  const float xx = x * x, fourth = xx * xx;
  return fourth * fourth;
}

// The code below or above `value`, of 0 to `most`; `near` is where between codes it lies.
template <typename Value>
inline float Choose(float value, float near, float most, float chance, Value of) {
  const float below = std::min(static_cast<float>(static_cast<int32_t>(near)), most - 1.0f);
  const float low = of(below), high = of(below + 1.0f);
  return below + (value - low > chance * (high - low) ? 1.0f : 0.0f);
}

void Decode(const uint8_t* codes, float scale, bool second, float* out, int64_t count) {
  if (second) {
    for (int64_t i = 0; i < count; ++i) out[i] = scale * SecondOf(codes[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float size = scale * FirstOf(static_cast<float>(codes[i] & 0x7f));
    out[i] = (codes[i] & 0x80) != 0 ? -size : size;
  }
}

float EncodeFirst(const float* values, uint32_t step, uint32_t place, uint8_t* codes,
                  int64_t count) {
  float scale = 0;
  for (int64_t i = 0; i < count; ++i) scale = std::max(scale, std::abs(values[i]));
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float size = std::min(std::abs(values[i]) * inverse, 1.0f);
    const float chance = Chance(step, place + static_cast<uint32_t>(i));
    const float code = Choose(size, std::sqrt(size) * 127.0f, 127.0f, chance, FirstOf);
    codes[i] = static_cast<uint8_t>(static_cast<int>(code) | (values[i] < 0 ? 0x80 : 0));
  }
  return scale;
}

float EncodeSecond(const float* values, uint32_t step, uint32_t place, uint8_t* codes,
                   int64_t count) {
  float scale = 0;
  for (int64_t i = 0; i < count; ++i) scale = std::max(scale, values[i]);
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float size = std::min(values[i] * inverse, 1.0f);
    const float chance = Chance(step, place - static_cast<uint32_t>(i));
    const float near = std::sqrt(std::sqrt(std::sqrt(size))) * 255.0f;
    const float code = Choose(size, near, 255.0f, chance, SecondOf);
    // Nothing is divided by a second moment that was lost.
    codes[i] = static_cast<uint8_t>(size > 0 ? std::max(code, 1.0f) : 0.0f);
  }
  return scale;
}

}  // namespace

void UpdateBlocks(const AdamWUpdate& u, uint64_t step, const float* grad, float* parameter,
                  const BlockMoments& moments, int64_t count) {
  float m[kMomentBlock], v[kMomentBlock];
  const float inverse_root = 1.0f / u.root;
  for (int64_t first = 0, block = 0; first < count; first += kMomentBlock, ++block) {
    const int64_t n = std::min(kMomentBlock, count - first);
    Decode(moments.first + first, moments.first_scales[block], false, m, n);
    Decode(moments.second + first, moments.second_scales[block], true, v, n);
    for (int64_t i = 0; i < n; ++i) {
      const float g = grad[first + i] * u.grad_scale;
      m[i] = u.beta1 * m[i] + (1.0f - u.beta1) * g;
      v[i] = u.beta2 * v[i] + (1.0f - u.beta2) * g * g;
      parameter[first + i] =
          u.decay * parameter[first + i] - u.rate * m[i] / (std::sqrt(v[i]) * inverse_root + u.eps);
    }
    const auto place = static_cast<uint32_t>(first);
    const auto now = static_cast<uint32_t>(step);
    moments.first_scales[block] = EncodeFirst(m, now, place, moments.first + first, n);
    moments.second_scales[block] = EncodeSecond(v, now, ~place, moments.second + first, n);
  }
}

}  // namespace tidemill
