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

// Where a tensor may begin.
uint64_t Rounded(uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// More do not make it faster: memory and, of a GPU, the bus are the limit.
int CopyThreads() {
  return std::min(12, AvailableCores());
}

}  // namespace

uint64_t CopyMemory::BytesOf(const NamedTensors& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += Rounded(tensor.nbytes());
  return bytes;
}

void CopyMemory::Reserve(uint64_t bytes) {
  taken_ = 0;
  const bool held = block_.defined() && block_.storage().use_count() > 1;
  if (!held && this->bytes() >= bytes) return;
  block_.reset();  // first: there may not be room for both
  block_ = at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte));
  UseHugePages(block_.data_ptr(), block_.nbytes());
}

void CopyMemory::Touch() const {
  if (bytes() == 0) return;
  auto* const begin = static_cast<std::byte*>(block_.data_ptr());
  const size_t pieces = (bytes() + kCopyPieceBytes - 1) / kCopyPieceBytes;
  static_cast<void>(InParallel(pieces, CopyThreads(), [&](size_t i) {
    const size_t first = i * kCopyPieceBytes;
    std::memset(begin + first, 0, std::min<size_t>(kCopyPieceBytes, bytes() - first));
    return Ok();
  }));
}

at::Tensor CopyMemory::Take(const at::Tensor& like) {
  const uint64_t first = taken_;
  taken_ += Rounded(like.nbytes());
  TM_CHECK(taken_ <= bytes(), "there is room for what was reserved");
  return block_.narrow(0, static_cast<int64_t>(first), static_cast<int64_t>(like.nbytes()))
      .view(like.scalar_type())
      .view(like.sizes());
}

void HostCopies::Add(NamedTensors& tensors, CopyMemory& memory) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) {
    const at::Tensor source = tensor.detach().contiguous();
    const at::Tensor copy = memory.Take(source);
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
