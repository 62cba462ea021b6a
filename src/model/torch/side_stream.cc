#include "model/torch/side_stream.h"

#include "model/torch/aten.h"

#include <map>

#if defined(TIDEMILL_CUDA) && !defined(TIDEMILL_CUDA_HOST)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/mutex.h"
#endif

namespace tidemill {

#if defined(TIDEMILL_CUDA) && !defined(TIDEMILL_CUDA_HOST)
namespace {

// One for each GPU: libtorch keeps freed memory by stream, so that others would each keep their
// own.
c10::cuda::CUDAStream SideStreamOf(c10::DeviceIndex device) {
  static Mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  MutexLock lock(mutex);
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  return streams.emplace(device, c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device))
      .first->second;
}

}  // namespace

void OnSideStream(const at::Device& device, const std::function<void()>& body) {
  if (!device.is_cuda()) return body();
  const c10::cuda::CUDAStream stream =
      SideStreamOf(device.has_index() ? device.index() : c10::DeviceIndex{0});
  const c10::cuda::CUDAStreamGuard guard(stream);
  body();
  stream.synchronize();
}
#else
void OnSideStream(const at::Device& device, const std::function<void()>& body) {
  static_cast<void>(device);
  body();
}
#endif

}  // namespace tidemill
