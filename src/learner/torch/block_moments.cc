#include "learner/torch/block_moments.h"

#include <algorithm>
#include <cmath>

#include "model/split_float.h"

namespace tidemill {
namespace {

// At most kMomentBlock numbers, the first of which is number `first` of its tensor.
struct BlockPlace {
  int64_t first;
  int64_t numbers;
  uint32_t Index(int64_t i) const {
    return static_cast<uint32_t>(first) + static_cast<uint32_t>(i);
  }
};

// Both give the scale. Loops in functions of their own: so the compiler vectorizes them.
float EncodeFirsts(const float* values, uint32_t step, BlockPlace place, uint8_t* codes) {
  float scale = 0;
  for (int64_t i = 0; i < place.numbers; ++i) scale = std::max(scale, std::abs(values[i]));
  const float inverse = InverseScale(scale);
  for (int64_t i = 0; i < place.numbers; ++i) {
    const float chance = MomentChance(step, FirstMomentPlace(place.Index(i)));
    codes[i] = EncodeFirst(values[i], inverse, chance);
  }
  return scale;
}

float EncodeSeconds(const float* values, uint32_t step, BlockPlace place, uint8_t* codes) {
  float scale = 0;
  for (int64_t i = 0; i < place.numbers; ++i) scale = std::max(scale, values[i]);
  const float inverse = InverseScale(scale);
  for (int64_t i = 0; i < place.numbers; ++i) {
    const float chance = MomentChance(step, SecondMomentPlace(place.Index(i)));
    codes[i] = EncodeSecond(values[i], inverse, chance);
  }
  return scale;
}

void UpdateBlock(const AdamWUpdate& u, uint32_t step, BlockPlace place, const float* grad,
                 float* parameter, const BlockMoments& moments) {
  float m[kMomentBlock], v[kMomentBlock];
  const int64_t n = place.numbers, block = place.first / kMomentBlock;
  uint8_t* first = moments.first + place.first;
  uint8_t* second = moments.second + place.first;
  float &m_scale = moments.first_scales[block], &v_scale = moments.second_scales[block];
  for (int64_t i = 0; i < n; ++i) m[i] = DecodeFirst(first[i], m_scale);
  for (int64_t i = 0; i < n; ++i) v[i] = DecodeSecond(second[i], v_scale);
  const float inverse_root = 1.0f / u.root;
  for (int64_t i = 0; i < n; ++i) {
    parameter[i] = AdamWNumber(u, inverse_root, grad[i], parameter[i], m[i], v[i]);
  }
  m_scale = EncodeFirsts(m, step, place, first);
  v_scale = EncodeSeconds(v, step, place, second);
}

}  // namespace

void UpdateBlocks(const AdamWUpdate& u, uint64_t step, const float* grad, float* parameter,
                  const BlockMoments& moments, int64_t count) {
  for (int64_t first = 0; first < count; first += kMomentBlock) {
    UpdateBlock(u, static_cast<uint32_t>(step), {first, std::min(kMomentBlock, count - first)},
                grad + first, parameter + first, moments);
  }
}

void UpdateSplitBlocks(const AdamWUpdate& u, uint64_t step, const uint16_t* grad,
                       const SplitParameter& parameter, const BlockMoments& moments,
                       int64_t count) {
  float g[kMomentBlock], p[kMomentBlock];
  for (int64_t first = 0; first < count; first += kMomentBlock) {
    const int64_t n = std::min(kMomentBlock, count - first);
    for (int64_t i = 0; i < n; ++i) {
      g[i] = WidenBfloat16(grad[first + i]);
      p[i] = JoinFloat(parameter.high[first + i], parameter.rest[first + i]);
    }
    UpdateBlock(u, static_cast<uint32_t>(step), {first, n}, g, p, moments);
    for (int64_t i = 0; i < n; ++i) {
      const SplitFloat split = SplitOf(p[i]);
      parameter.high[first + i] = split.high;
      parameter.rest[first + i] = split.rest;
    }
  }
}

}  // namespace tidemill
