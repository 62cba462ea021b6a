// AdamW's two moments in one byte each: numbers of a block share a float32 scale, their largest.
//
// First moments are a sign and (q / 127)², second ones (q / 255)⁸ of the scale, so that small
// numbers beside a large one keep their first digits. A number between two codes becomes one of
// them by chance, in proportion: rounding is right on average, where rounding to the nearest would
// keep a moment from moving at all. The chance is a hash of step and place, the same in every run.
#pragma once

#include <cstdint>

namespace tidemill {

inline constexpr int64_t kMomentBlock = 64;

// One parameter's update in one number each: p ← decay·p − rate·m / (√v / root + eps).
struct AdamWUpdate {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};

// The moments of `count` numbers: as many codes, and scales for count / kMomentBlock blocks,
// rounded up.
struct BlockMoments {
  uint8_t* first;
  float* first_scales;
  uint8_t* second;
  float* second_scales;
};

// One update in place. `step` is its number, counted over the whole training.
void UpdateBlocks(const AdamWUpdate& update, uint64_t step, const float* grad, float* parameter,
                  const BlockMoments& moments, int64_t count);

}  // namespace tidemill
