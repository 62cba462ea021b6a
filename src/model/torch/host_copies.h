// Copies of many tensors in new memory of the host, taken by several threads while their owner
// goes on with work that does not change them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "core/status.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

//   owner's thread: Add .. Add, Ready      any thread: Take
class HostCopies {
 public:
  // Puts tensors with memory of their own, on the CPU and of the same shape and type, in place of
  // `tensors`. Their numbers come with Take. Throws what libtorch throws: no memory.
  void Add(NamedTensors& tensors);
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
