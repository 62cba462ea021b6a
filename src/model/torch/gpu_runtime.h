// libtorch's knowledge of the GPU, in one place: tests that run the GPU's path on the CPU
// (tests/cuda_host) put another file in place of gpu_runtime.cc. OnGpu (device.h) belongs to it.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/cuda/kernels.h"

namespace tidemill {

// 0 in builds without CUDA.
int CountGpus();

#ifdef TIDEMILL_CUDA
// That libtorch uses in this thread.
CudaStream CurrentStream();
#endif
// Until everything libtorch started in this thread on the tensor's GPU is done.
void WaitForStream(const at::Tensor& tensor);
// Gives back what libtorch's allocator of the GPU keeps without using it. Others need some when
// memory has run out: kernels that are loaded, workspaces.
void ReleaseSpareGpuMemory();

}  // namespace tidemill
