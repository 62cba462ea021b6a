// The few instructions that are written in PTX, each with what it computes elsewhere: in tests on
// the CPU (tests/cuda_host) there is no PTX.
#pragma once

#include <cuda_runtime.h>

namespace tidemill {

// 2^x, to about two units in the last place.
__device__ __forceinline__ float Exp2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// c += a · b on the matrix units, by a whole warp: 16 x 16 times 16 x 8 in bfloat16, sums in
// float32. Lane 4 g + t holds
//   a[0], a[2]: row g, columns 2 t, 2 t + 1 and the same 8 further; a[1], a[3]: row g + 8
//   b0, b1: column g, rows 2 t, 2 t + 1 and the same 8 further
//   c[0], c[1]: row g, columns 2 t, 2 t + 1; c[2], c[3]: row g + 8
__device__ __forceinline__ void Mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  cuda_host::Mma(c, a, b0, b1);
#endif
}

}  // namespace tidemill
