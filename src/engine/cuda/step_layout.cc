#include "engine/cuda/step_layout.h"

#include <utility>

#include "core/status.h"

namespace tidemill {
namespace {

int Tiles(int rows, const CudaHeads& heads) {
  const int vectors = rows * (heads.heads / heads.kv_heads);
  return (vectors + kCudaPrefillVectors - 1) / kCudaPrefillVectors;
}

}  // namespace

int StepWriter::Splits(int rows, bool deep) const {
  if (!deep || !limits_.cuts) return 1;
  return std::clamp(132 * 8 / (rows * limits_.heads.kv_heads), 4, 64);
}

StepShape StepWriter::ShapeOf(std::span<const CudaSegment> segments) const {
  StepShape shape;
  int rows = 0, draws = 0, longest = 0;
  for (const CudaSegment& s : segments) {
    const int count = static_cast<int>(s.tokens.size());
    rows += count;
    draws += s.draw ? 1 : 0;
    longest = std::max(longest, static_cast<int>(s.pages.size()));
    if (count == 1) {
      ++shape.decode_rows;
    } else {
      shape.tiles += Tiles(count, limits_.heads);
    }
  }
  TM_CHECK(rows <= limits_.max_rows, "a step has as many rows as the decoder was made for");
  shape.rows = BatchBucket(rows);
  shape.selects = shape.tiles > 0 || shape.decode_rows > limits_.max_decode_rows;
  shape.draws = shape.selects ? BatchBucket(std::max(draws, 1)) : shape.rows;
  shape.splits = Splits(shape.rows, longest > kCudaLongPages);
  return shape;
}

StepShape StepWriter::Write(std::span<const CudaSegment> segments, char* host) {
  const StepShape shape = ShapeOf(segments);
  const StepLayout at(shape.rows, shape.draws, shape.selects, shape.tiles);
  auto* rows = reinterpret_cast<CudaRow*>(host);
  auto* draws = reinterpret_cast<CudaDraw*>(host + at.draws_at);
  auto* select = reinterpret_cast<int32_t*>(host + at.select_at);
  auto* tiles = reinterpret_cast<CudaPrefillTile*>(host + at.tiles_at);
  auto* pages = reinterpret_cast<int32_t*>(host + at.pages_at);
  std::swap(draw_of_, draw_of_before_);
  draw_of_.assign(segments.size(), -1);
  int single = 0, row = shape.decode_rows, draw = 0, tile = 0, page = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const CudaSegment& s = segments[i];
    const int count = static_cast<int>(s.tokens.size());
    const int needed = (s.first + count + kCudaPageSlots - 1) / kCudaPageSlots;
    std::copy_n(s.pages.begin(), needed, pages + page);
    int& next = count == 1 ? single : row;
    const int first = next;
    for (int r = 0; r < count; ++r) {
      rows[next++] = {.token = s.after < 0 ? s.tokens[static_cast<size_t>(r)]
                                           : ~draw_of_before_[static_cast<size_t>(s.after)],
                      .position = s.first + r,
                      .pages = page,
                      .unused = 0};
    }
    const int work = count > 1 ? Tiles(count, limits_.heads) : 0;
    for (int t = 0; t < work; ++t) {
      tiles[tile++] = {.row = first,
                       .length = count,
                       .first = s.first,
                       .pages = page,
                       .tile = work - 1 - t};  // the longest first
    }
    page += needed;
    if (!shape.selects) {
      draw_of_[i] = first;
      draws[first] = s.how;
    } else if (s.draw) {
      draw_of_[i] = draw;
      select[draw] = next - 1;
      draws[draw++] = s.how;
    }
  }
  const int used = single + (row - shape.decode_rows);
  for (int r = used; r < shape.rows; ++r) rows[r] = CudaRow{};
  for (int d = shape.selects ? draw : used; d < shape.draws; ++d) {
    draws[d] = CudaDraw{};
    if (shape.selects) select[d] = 0;
  }
  bytes_ = at.pages_at + static_cast<size_t>(page) * sizeof(int32_t);
  return shape;
}

}  // namespace tidemill
