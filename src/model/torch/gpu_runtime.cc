#include "model/torch/gpu_runtime.h"

#include "model/torch/aten.h"

#ifdef TIDEMILL_CUDA
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>
#endif

#include "model/torch/device.h"

namespace tidemill {

bool OnGpu(const at::Tensor& tensor) {
  return tensor.is_cuda();
}

#ifdef TIDEMILL_CUDA
namespace {

// Segments of libtorch's allocator that grow where they are: microbatches of unlike size leave up
// to 30 % of segments of fixed sizes unused. Here, since it counts only before the first
// allocation, whichever program makes it. What the environment says goes first.
[[maybe_unused]] const bool kSegmentsGrow = [] {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (std::getenv(name) != nullptr) return false;
  }
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  return true;
}();

}  // namespace

int CountGpus() {
  return c10::cuda::device_count();
}

CudaStream CurrentStream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

void WaitForStream(const at::Tensor& tensor) {
  c10::cuda::getCurrentCUDAStream(tensor.device().index()).synchronize();
}

void ReleaseSpareGpuMemory() {
  if (CountGpus() > 0) c10::cuda::CUDACachingAllocator::emptyCache();
}

#else

int CountGpus() {
  return 0;
}

void WaitForStream(const at::Tensor&) {}
void ReleaseSpareGpuMemory() {}

#endif

}  // namespace tidemill
