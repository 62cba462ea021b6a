// Numbers of either type as float32 and back, and sums over a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "model/cuda/intrinsics.cuh"

namespace tidemill {

__device__ __forceinline__ float ToFloat(float x) {
  return x;
}
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}

// Two bfloat16 in one word, the first in the low half.
__device__ __forceinline__ unsigned PackBf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ float2 UnpackBf16(unsigned word) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}

// Four numbers at once; `p` is aligned to them.
__device__ __forceinline__ float4 Load4(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}
__device__ __forceinline__ float4 Load4(const __nv_bfloat16* p) {
  const uint2 raw = *reinterpret_cast<const uint2*>(p);
  const float2 a = UnpackBf16(raw.x), b = UnpackBf16(raw.y);
  return {a.x, a.y, b.x, b.y};
}
__device__ __forceinline__ void Store4(float* p, float4 v) {
  *reinterpret_cast<float4*>(p) = v;
}
__device__ __forceinline__ void Store4(__nv_bfloat16* p, float4 v) {
  *reinterpret_cast<uint2*>(p) = make_uint2(PackBf16(v.x, v.y), PackBf16(v.z, v.w));
}

__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Over a block of kThreads; every thread gets the sum. `scratch` holds kThreads / 32 floats and may
// be used again after the next barrier.
template <int kThreads>
__device__ __forceinline__ float BlockSum(float x, float* scratch) {
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += scratch[w];
  return sum;
}

}  // namespace tidemill
