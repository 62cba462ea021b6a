// bfloat16 as CUDA has it, on the CPU: see cuda_runtime.h.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

struct alignas(2) __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  inline __nv_bfloat16(float x);
  inline operator float() const;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

// To the nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  __nv_bfloat16 out;
  if (x != x) {
    out.bits = 0x7fff;
  } else {
    out.bits = static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
  return out;
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline __nv_bfloat16::__nv_bfloat16(float x) : bits(__float2bfloat16(x).bits) {}
inline __nv_bfloat16::operator float() const {
  return __bfloat162float(*this);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  __nv_bfloat162 out;
  out.x = __float2bfloat16(x);
  out.y = __float2bfloat16(y);
  return out;
}
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {__bfloat162float(pair.x), __bfloat162float(pair.y)};
}
