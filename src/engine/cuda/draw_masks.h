// The sets of tokens that draws of a step are held to, as bits on the device.
//
//   Add(mask), Add(mask), .. -> Upload -> draws of the step read their own (CudaDraw::mask)
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "core/status.h"
#include "engine/constraint/token_mask.h"
#include "model/cuda/check.h"

namespace tidemill {

// Not thread-safe. At most two steps are under way: what the host wrote for one is not touched
// until it is done.
class DrawMasks {
 public:
  DrawMasks() = default;
  DrawMasks(const DrawMasks&) = delete;
  DrawMasks& operator=(const DrawMasks&) = delete;
  ~DrawMasks();

  // Once. kFull: the GPU has not enough memory.
  Status Allocate(int64_t vocabulary);
  // For the next step: which mask it is, from 1; the same for the same set. 0: there is no room.
  int32_t Add(const TokenMask& mask);
  // The next step's masks are on the stream. Afterwards they are another's.
  Status Upload(cudaStream_t stream);

  const uint32_t* device() const { return bits_.as<uint32_t>(); }
  int words() const { return words_; }

 private:
  static constexpr size_t kMost = 128;

  int words_ = 0;  // of one
  CudaBuffer bits_;
  std::array<uint32_t*, 2> host_{};  // pinned; of step n in n modulo 2
  size_t step_ = 0;
  std::vector<const TokenMask*> there_;  // of the next step
};

}  // namespace tidemill
