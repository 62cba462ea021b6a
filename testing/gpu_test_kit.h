// For tests that need a GPU and are skipped where there is none. With TIDEMILL_CUDA_HOST the GPU's
// sources run on the CPU (tests/cuda_host), on tensors of the CPU.
#pragma once

#include "model/torch/aten.h"

#include <gtest/gtest.h>

namespace tidemill {

#ifdef TIDEMILL_CUDA_HOST
inline constexpr bool kGpuOnCpu = true;
#else
inline constexpr bool kGpuOnCpu = false;
#endif

// Where tests put their tensors.
inline constexpr const char* kTestDevice = kGpuOnCpu ? "cpu" : "cuda";

// A size that takes seconds on a GPU, or on the CPU in its place.
template <typename T>
constexpr T Sized(T gpu, T cpu) {
  return kGpuOnCpu ? cpu : gpu;
}

inline bool HasGpu() {
#ifdef TIDEMILL_CUDA_HOST
  return true;
#elif defined(TIDEMILL_CUDA)
  return at::hasCUDA();
#else
  return false;
#endif
}

#define SKIP_WITHOUT_GPU() \
  if (!HasGpu()) GTEST_SKIP() << "no GPU, or built without CUDA"
// What would take minutes there, or compares the GPU with the CPU's own path.
#define SKIP_ON_CPU(why) \
  if (kGpuOnCpu) GTEST_SKIP() << "only on a GPU: " << (why)

}  // namespace tidemill
