// Copies of many tensors in memory of the host, taken by several threads while their owner goes on
// with work that does not change them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// Memory that one set of copies after the other lies in: to touch pages for the first time takes
// longer than to copy. Not thread-safe.
class CopyMemory {
 public:
  // Of a copy of these.
  static uint64_t BytesOf(const NamedTensors& tensors);

  // Makes room for `bytes` of copies. Those that were taken from it before stay as they are, in
  // memory of their own, as long as somebody holds them. Throws what libtorch throws: no memory.
  void Reserve(uint64_t bytes);
  // Touches all of it, with several threads.
  void Touch() const;
  // A tensor on the CPU of the shape and type of `like`; there is room for it.
  at::Tensor Take(const at::Tensor& like);
  // Gives it back, where no copy holds it.
  void Release() { block_.reset(); }

  uint64_t bytes() const { return block_.defined() ? block_.nbytes() : 0; }

 private:
  at::Tensor block_;
  uint64_t taken_ = 0;
};

//   owner's thread: Add .. Add, Ready      any thread: Take
class HostCopies {
 public:
  // Puts tensors from `memory`, of the same shape and type, in place of `tensors`. Their numbers
  // come with Take.
  void Add(NamedTensors& tensors, CopyMemory& memory);
  // After the last Add: returns when what their owner started on a GPU before is done.
  void Ready() const;
  // Copies the numbers. The tensors that were given are kept alive, and must not be changed, until
  // it returns. Once.
  Status Take();

 private:
  struct Piece {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  Status TakeFromHost() const;
  Status TakeFromGpu() const;

  std::vector<at::Tensor> sources_;
  std::vector<Piece> host_pieces_;  // from memory of the host
  std::vector<Piece> gpu_pieces_;
  at::Tensor on_gpu_;  // one of the sources, of the GPU that all of gpu_pieces_ are on
};

}  // namespace tidemill
