// How a step's rows, draws and pages lie in the one buffer that is copied to the device, and to
// which batch sizes steps are filled up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "policy/cuda/kernels.h"

namespace tidemill {

// The smallest batch size for which there are plans and graphs that holds `rows`.
inline int BatchBucket(int rows) {
  int step = 1;
  if (rows > 4096) {
    step = 1024;
  } else if (rows > 1024) {
    step = 256;
  } else if (rows > 512) {
    step = 128;
  } else if (rows > 128) {
    step = 64;
  } else if (rows > 32) {
    step = 32;
  } else if (rows > 16) {
    step = 16;
  } else if (rows > 8) {
    step = 8;
  } else {
    while (step < rows) step *= 2;
    return step;
  }
  return (rows + step - 1) / step * step;
}

// Offsets in bytes. `select` is there only where not every row draws.
struct StepLayout {
  StepLayout(int rows, int draws, bool selects, int tiles) {
    size_t at = static_cast<size_t>(rows) * sizeof(CudaRow);
    draws_at = at;
    at += static_cast<size_t>(draws) * sizeof(CudaDraw);
    select_at = at;
    if (selects) at += static_cast<size_t>(draws) * sizeof(int32_t);
    tiles_at = at;
    at += static_cast<size_t>(tiles) * sizeof(CudaPrefillTile);
    pages_at = (at + 15) / 16 * 16;
  }
  size_t draws_at, select_at, tiles_at, pages_at;
};

// Columns of logits computed at once, about the same number each time: a few large products. (Small
// ones, whose logits stay in the second-level cache, were slower: docs/gpu.md.)
inline int LogitColumns(int draws, int vocabulary) {
  constexpr int64_t kBytes = int64_t{160} << 20;
  const int64_t part_bytes =
      static_cast<int64_t>(sizeof(float)) * kCudaPartColumns * std::max(draws, 1);
  const int64_t parts = (vocabulary + kCudaPartColumns - 1) / kCudaPartColumns;
  const int64_t fit = std::max<int64_t>(kBytes / part_bytes, 1);
  const int64_t times = (parts + fit - 1) / fit;
  const int64_t columns = (parts + times - 1) / times * kCudaPartColumns;
  return static_cast<int>(std::min<int64_t>(columns, (vocabulary + 3) / 4 * 4));
}

}  // namespace tidemill
