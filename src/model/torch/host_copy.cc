#include "model/torch/host_copy.h"

#include "model/torch/aten.h"

#include <algorithm>
#include <cstring>

#ifdef TIDEMILL_CUDA
#include "model/torch/device.h"
#include "model/torch/gpu_runtime.h"
#endif

namespace tidemill {
namespace {

#ifdef TIDEMILL_CUDA
constexpr int64_t kPieceBytes = int64_t{8} << 20;  // of pinned memory, kept by libtorch

at::Tensor FromGpu(const at::Tensor& tensor) {
  const at::Tensor from = tensor.detach().contiguous().view(-1);
  at::Tensor to = at::empty(tensor.sizes(), at::TensorOptions().dtype(from.scalar_type()));
  const int64_t size = static_cast<int64_t>(from.element_size());
  const int64_t piece = std::clamp<int64_t>(from.numel(), 1, kPieceBytes / size);
  const at::Tensor pinned = HostVector(piece, from.scalar_type(), from.device());
  auto* bytes = static_cast<char*>(to.data_ptr());
  for (int64_t first = 0; first < from.numel(); first += piece) {
    const int64_t count = std::min(piece, from.numel() - first);
    pinned.narrow(0, 0, count).copy_(from.narrow(0, first, count), /*non_blocking=*/true);
    WaitForStream(from);
    std::memcpy(bytes + first * size, pinned.data_ptr(), static_cast<size_t>(count * size));
  }
  return to;
}
#endif

}  // namespace

at::Tensor HostCopy(const at::Tensor& tensor) {
#ifdef TIDEMILL_CUDA
  if (OnGpu(tensor)) return FromGpu(tensor);
#endif
  return tensor.detach().to(at::kCPU).contiguous();
}

at::Tensor HostCopy(const at::Tensor& tensor, at::ScalarType type) {
  return HostCopy(tensor.detach().to(type));
}

at::Tensor HostVector(int64_t size, at::ScalarType type, const at::Device& device) {
  return at::empty({size}, at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
}

at::Tensor DeviceCopy(const at::Tensor& host, const at::Device& device) {
  return device.is_cpu() ? host : host.to(device, /*non_blocking=*/true);
}

}  // namespace tidemill
