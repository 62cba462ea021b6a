// AdamW with moments in a byte each (model/moment_codes.h), on the CPU.
#pragma once

#include <cstdint>

#include "model/moment_codes.h"

namespace tidemill {

// The moments of `count` numbers: as many codes, and scales for MomentBlocks(count) blocks.
struct BlockMoments {
  uint8_t* first;
  float* first_scales;
  uint8_t* second;
  float* second_scales;
};

// One update in place. `step` is its number, counted over the whole training.
void UpdateBlocks(const AdamWUpdate& update, uint64_t step, const float* grad, float* parameter,
                  const BlockMoments& moments, int64_t count);

// The same of parameters in two halves (model/split_float.h) by a gradient in bfloat16.
struct SplitParameter {
  uint16_t* high;
  int16_t* rest;
};
void UpdateSplitBlocks(const AdamWUpdate& update, uint64_t step, const uint16_t* grad,
                       const SplitParameter& parameter, const BlockMoments& moments, int64_t count);

}  // namespace tidemill
