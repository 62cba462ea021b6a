// How a kernel is launched, and its dynamic shared memory. A plain function instead of <<<>>>, so
// that the same sources compile without nvcc: there the blocks run on the CPU, thread by thread, in
// tests (tests/cuda_host).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

#include "model/cuda/kernels.h"

namespace tidemill {

struct LaunchShape {
  dim3 grid;
  unsigned threads = 0;     // of a block
  size_t shared_bytes = 0;  // of a block: what DynamicShared gives
  CudaStream stream = nullptr;
};

// As kernel<<<grid, threads, shared_bytes, stream>>>(args...): does not wait, and cudaGetLastError
// says whether it could start. Arguments are copied.
template <typename... Params, typename... Args>
void Launch(void (*kernel)(Params...), const LaunchShape& shape, Args&&... args) {
#ifdef __CUDACC__
  kernel<<<shape.grid, shape.threads, shape.shared_bytes, shape.stream>>>(
      std::forward<Args>(args)...);
#else
  cuda_host::Launch(
      {reinterpret_cast<const void*>(kernel), shape.grid, shape.threads, shape.shared_bytes},
      shape.stream,
      [kernel, params = std::tuple<Params...>(std::forward<Args>(args)...)] {
        std::apply(kernel, params);
      });
#endif
}

// Of the block, aligned to 16 bytes.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
#ifdef __CUDACC__
  extern __shared__ uint4 dynamic_shared[];
  return reinterpret_cast<T*>(dynamic_shared);
#else
  return static_cast<T*>(cuda_host::DynamicShared());
#endif
}

}  // namespace tidemill
