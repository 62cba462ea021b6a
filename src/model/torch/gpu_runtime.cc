#include "model/torch/gpu_runtime.h"

#include "model/torch/aten.h"

#ifdef TIDEMILL_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "model/torch/device.h"

namespace tidemill {

bool OnGpu(const at::Tensor& tensor) {
  return tensor.is_cuda();
}

#ifdef TIDEMILL_CUDA

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
