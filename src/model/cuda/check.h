// CUDA's return codes as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/status.h"

namespace tidemill {

inline Status CudaStatus(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return Ok();
  return Internal(std::string(what) + ": " + cudaGetErrorString(code));
}

#define TM_CUDA(call) TM_RETURN_IF_ERROR(::tidemill::CudaStatus((call), #call))

// Memory of the device, given back in the end.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  ~CudaBuffer() { cudaFree(data_); }

  // Once. kFull: the device has not as much left.
  Status Allocate(size_t bytes, const char* what) {
    const cudaError_t code = cudaMalloc(&data_, bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return Full("the GPU has no " + std::to_string(bytes >> 20) + " MiB left for " + what);
    }
    return CudaStatus(code, what);
  }
  template <typename T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace tidemill
