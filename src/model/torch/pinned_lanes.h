// Bytes between host and GPU by several threads, in pieces through pinned memory: nothing waits
// inside the driver, where a copy of pageable memory would hold up every launch of the process.
// Only in builds with CUDA.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "core/status.h"

namespace tidemill {

// The largest piece.
inline constexpr size_t kLanePieceBytes = size_t{4} << 20;

// One thread's way: a stream of its own and two pinned buffers in turn. One is filled or emptied
// while the other travels.
class PinnedLane {
 public:
  PinnedLane() = default;
  PinnedLane(const PinnedLane&) = delete;
  PinnedLane& operator=(const PinnedLane&) = delete;
  ~PinnedLane();

  // Once, before the first piece.
  Status Open(const at::Device& device);
  // To the GPU: what `fill` writes. It must not throw.
  using Fill = std::function<void(std::span<std::byte> out)>;
  Status Send(std::byte* to, size_t bytes, const Fill& fill);
  // From the GPU: it is at `to`, memory of the host, after Finish at the latest.
  Status Fetch(std::byte* to, const std::byte* from, size_t bytes);
  // Every piece has arrived when it returns.
  Status Finish();

 private:
  struct Buffer {
    at::Tensor memory;  // pinned; libtorch keeps it for the next lane
    cudaEvent_t travelled = nullptr;
    std::byte* to = nullptr;  // where a fetched piece belongs; null: none is in it
    size_t bytes = 0;

    std::byte* data() const { return static_cast<std::byte*>(memory.data_ptr()); }
  };
  // Waits until the buffer has travelled, and empties it. The buffer is free then.
  Status Land(Buffer& buffer);

  cudaStream_t stream_ = nullptr;
  std::array<Buffer, 2> buffers_;
  size_t turn_ = 0;
};

// Moves pieces 0 .. pieces - 1 on at most `threads` threads, each of which has a lane and takes one
// piece after the other, in this order. They have arrived when it returns. What is read or written
// on the GPU must be complete before. After a failure some pieces may be missing.
using MovePiece = std::function<Status(PinnedLane& lane, size_t piece)>;
Status InPinnedLanes(const at::Device& device, size_t pieces, int threads, const MovePiece& move);

}  // namespace tidemill
