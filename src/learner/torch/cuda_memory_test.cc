// libtorch's allocator of the GPU, as the programs set it.
#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include "model/torch/gpu_runtime.h"
#include "testing/gpu_test_kit.h"
#ifdef TIDEMILL_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace tidemill {
namespace {

TEST(CudaMemory, WhatIsFreedServesLargerTensors) {
  SKIP_WITHOUT_GPU();
#ifdef TIDEMILL_CUDA
  constexpr int64_t kMega = int64_t{1} << 20;
  const auto options = at::TensorOptions().dtype(at::kByte).device(at::Device(kTestDevice));
  const auto reserved = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  };
  ReleaseSpareGpuMemory();
  const int64_t before = reserved();
  for (const int64_t megabytes : {100, 150, 200, 250, 300}) {
    const at::Tensor tensor = at::empty({megabytes * kMega}, options);
  }
  // Segments of fixed sizes would stay for all five: a thousand.
  EXPECT_LE(reserved() - before, 400 * kMega);
#endif
}

}  // namespace
}  // namespace tidemill
