// A float32 in two halves: the bfloat16 nearest to it, and what is missing, as a 16-bit number.
// Together they are the float32 to the last bit; the first alone is what matrices are multiplied
// with. A bfloat16 is the upper half of a float32, so neighbours differ by 65,536 when read as
// integers, and what is missing is at most half of that.
#pragma once

#include <bit>
#include <cstdint>

#include "model/host_device.h"

namespace tidemill {

struct SplitFloat {
  uint16_t high = 0;  // the bits of a bfloat16
  int16_t rest = 0;
};

// A number in the middle of two becomes the larger in size, so that the rest fits. What is no
// number stays none, not necessarily with the same bits.
TM_HOST_DEVICE inline SplitFloat SplitOf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40u), 0};
  }
  const uint32_t high = (bits + 0x8000u) >> 16;
  return {static_cast<uint16_t>(high), static_cast<int16_t>(bits - (high << 16))};
}

TM_HOST_DEVICE inline float JoinFloat(uint16_t high, int16_t rest) {
  return std::bit_cast<float>((uint32_t{high} << 16) +
                              static_cast<uint32_t>(static_cast<int32_t>(rest)));
}

// Of a bfloat16 alone.
TM_HOST_DEVICE inline float WidenBfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

}  // namespace tidemill
