// How a step's rows, draws and pages lie in the one buffer that is copied to the device, and to
// which batch sizes steps are filled up. Touches no device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/cuda/kernels.h"

namespace tidemill {

constexpr int kCudaLongPages = 64;  // contexts over 1,024 tokens are cut into parts

// Consecutive tokens of one sequence.
struct CudaSegment {
  std::span<const int32_t> tokens;
  int32_t after =
      -1;             // >= 0: `tokens` is one place, for what that segment of the step before draws
  int32_t first = 0;  // position
  std::span<const int32_t> pages;
  bool draw = false;
  CudaDraw how;
};

// The smallest batch size for which there are plans and graphs that holds `rows`.
inline int BatchBucket(int rows) {
  int step = 1;
  if (rows > 4096) {
    step = 1024;
  } else if (rows > 2048) {
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

// The launches of a step; the same step has the same.
struct StepShape {
  int rows = 0;         // a bucket
  int decode_rows = 0;  // the first ones, each of a sequence of its own
  int tiles = 0;
  int draws = 0;  // a bucket
  bool selects = false;
  int splits = 1;
};

class StepWriter {
 public:
  struct Limits {
    CudaHeads heads;
    int max_rows = 0;
    int max_decode_rows = 0;
    bool cuts = true;  // attention can cut long contexts into parts
  };
  explicit StepWriter(const Limits& limits) : limits_(limits) {}

  // Writes a step into host memory. Sequences with one row come first.
  StepShape Write(std::span<const CudaSegment> segments, char* host);

  // Parts that contexts are cut into in a step of `rows` rows, with long contexts among them.
  int Splits(int rows, bool deep) const;

  // Of the step written last: its size, and where the draws of its segments are (negative: none).
  size_t bytes() const { return bytes_; }
  const std::vector<int>& draws() const { return draw_of_; }

 private:
  StepShape ShapeOf(std::span<const CudaSegment> segments) const;

  const Limits limits_;
  std::vector<int> draw_of_, draw_of_before_;
  size_t bytes_ = 0;
};

}  // namespace tidemill
