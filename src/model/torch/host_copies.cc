#include "model/torch/host_copies.h"

#include "model/torch/aten.h"

#include <algorithm>
#include <cstring>

#include "core/memory.h"
#include "core/parallel.h"
#include "core/threads.h"
#include "model/torch/device.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/gpu_runtime.h"
#include "model/torch/pinned_lanes.h"
#endif

namespace tidemill {
namespace {

constexpr size_t kCopyPieceBytes = size_t{4} << 20;
#ifdef TIDEMILL_CUDA
static_assert(kCopyPieceBytes <= kLanePieceBytes);
#endif

// More do not make it faster: memory and, of a GPU, the bus are the limit.
int CopyThreads() {
  return std::min(8, AvailableCores());
}

}  // namespace

void HostCopies::Add(NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) {
    const at::Tensor source = tensor.detach().contiguous();
    const at::Tensor copy =
        at::empty(source.sizes(), at::TensorOptions().dtype(source.scalar_type()));
    UseHugePages(copy.data_ptr(), copy.nbytes());
    if (OnGpu(source)) on_gpu_ = source;
    std::vector<Piece>& pieces = OnGpu(source) ? gpu_pieces_ : host_pieces_;
    const auto* from = static_cast<const std::byte*>(source.data_ptr());
    auto* to = static_cast<std::byte*>(copy.data_ptr());
    for (size_t first = 0; first < source.nbytes(); first += kCopyPieceBytes) {
      pieces.push_back(
          {from + first, to + first, std::min(kCopyPieceBytes, source.nbytes() - first)});
    }
    sources_.push_back(source);
    tensor = copy;
  }
}

void HostCopies::Ready() const {
#ifdef TIDEMILL_CUDA
  if (on_gpu_.defined()) WaitForStream(on_gpu_);
#endif
}

Status HostCopies::Take() {
  Status status = TakeFromHost();
  if (status.ok()) status = TakeFromGpu();
  on_gpu_.reset();
  sources_.clear();
  return status;
}

Status HostCopies::TakeFromHost() const {
  return InParallel(host_pieces_.size(), CopyThreads(), [&](size_t i) {
    std::memcpy(host_pieces_[i].to, host_pieces_[i].from, host_pieces_[i].bytes);
    return Ok();
  });
}

Status HostCopies::TakeFromGpu() const {
  if (gpu_pieces_.empty()) return Ok();
#ifdef TIDEMILL_CUDA
  return InPinnedLanes(
      on_gpu_.device(), gpu_pieces_.size(), CopyThreads(), [&](PinnedLane& lane, size_t i) {
        return lane.Fetch(gpu_pieces_[i].to, gpu_pieces_[i].from, gpu_pieces_[i].bytes);
      });
#else
  return Invalid("this program was built without CUDA");
#endif
}

}  // namespace tidemill
