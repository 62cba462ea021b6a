#ifdef TIDEMILL_CUDA

#include "model/torch/pinned_lanes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "model/cuda/check.h"
#include "model/torch/catch.h"
#include "model/torch/host_copy.h"

namespace tidemill {

PinnedLane::~PinnedLane() {
  // After a failure pieces may still travel.
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (Buffer& buffer : buffers_) {
    if (buffer.travelled != nullptr) cudaEventDestroy(buffer.travelled);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status PinnedLane::Open(const at::Device& device) {
  TM_CUDA(cudaSetDevice(device.has_index() ? device.index() : 0));
  TM_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (Buffer& buffer : buffers_) {
    // Waits leave the core to others: lanes run beside everything else.
    TM_CUDA(cudaEventCreateWithFlags(&buffer.travelled,
                                     cudaEventDisableTiming | cudaEventBlockingSync));
    TM_RETURN_IF_ERROR(CatchTorchStatus("pinned memory", [&] {
      buffer.memory = HostVector(static_cast<int64_t>(kLanePieceBytes), at::kByte, device);
      return Ok();
    }));
  }
  return Ok();
}

Status PinnedLane::Land(Buffer& buffer) {
  TM_CUDA(cudaEventSynchronize(buffer.travelled));
  if (buffer.to != nullptr) std::memcpy(buffer.to, buffer.data(), buffer.bytes);
  buffer.to = nullptr;
  return Ok();
}

Status PinnedLane::Send(std::byte* to, size_t bytes, const Fill& fill) {
  TM_CHECK(bytes <= kLanePieceBytes, "a piece fits its buffer");
  Buffer& buffer = buffers_[turn_++ % buffers_.size()];
  TM_RETURN_IF_ERROR(Land(buffer));
  fill({buffer.data(), bytes});
  TM_CUDA(cudaMemcpyAsync(to, buffer.data(), bytes, cudaMemcpyHostToDevice, stream_));
  TM_CUDA(cudaEventRecord(buffer.travelled, stream_));
  return Ok();
}

Status PinnedLane::Fetch(std::byte* to, const std::byte* from, size_t bytes) {
  TM_CHECK(bytes <= kLanePieceBytes, "a piece fits its buffer");
  Buffer& buffer = buffers_[turn_++ % buffers_.size()];
  TM_RETURN_IF_ERROR(Land(buffer));
  TM_CUDA(cudaMemcpyAsync(buffer.data(), from, bytes, cudaMemcpyDeviceToHost, stream_));
  TM_CUDA(cudaEventRecord(buffer.travelled, stream_));
  buffer.to = to;
  buffer.bytes = bytes;
  return Ok();
}

Status PinnedLane::Finish() {
  for (Buffer& buffer : buffers_) TM_RETURN_IF_ERROR(Land(buffer));
  return Ok();
}

Status InPinnedLanes(const at::Device& device, size_t pieces, int threads, const MovePiece& move) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const size_t lanes = std::min(pieces, static_cast<size_t>(std::max(threads, 1)));
  const auto run = [&]() -> Status {
    PinnedLane lane;
    TM_RETURN_IF_ERROR(lane.Open(device));
    for (size_t i = next.fetch_add(1); i < pieces && !failed; i = next.fetch_add(1)) {
      TM_RETURN_IF_ERROR(move(lane, i));
    }
    return lane.Finish();
  };
  return InParallel(lanes, threads, [&](size_t) {
    Status status = run();
    if (!status.ok()) failed = true;
    return status;
  });
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
