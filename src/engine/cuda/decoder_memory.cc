#include "engine/cuda/decoder_memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tidemill {

Status DecoderMemory::Allocate(const ModelConfig& c, const Sizes& sizes, const StepWriter& writer) {
  const size_t bytes = CudaTypeBytes(sizes.heads.type);
  const auto rows = static_cast<size_t>(sizes.max_rows);
  const auto numbers = [&](int64_t width) { return rows * static_cast<size_t>(width) * bytes; };
  const size_t pages = static_cast<size_t>(sizes.pages) * CudaPageNumbers(c) * bytes *
                       static_cast<size_t>(c.num_layers);
  TM_RETURN_IF_ERROR(pool.Allocate(pages, "keys and values"));
  // What is masked is still multiplied with zero, so it must be numbers.
  TM_CUDA(cudaMemset(pool.as(), 0, pages));
  TM_RETURN_IF_ERROR(x.Allocate(rows * static_cast<size_t>(c.hidden_size) * 4, "rows"));
  TM_RETURN_IF_ERROR(h.Allocate(numbers(c.hidden_size), "rows"));
  TM_RETURN_IF_ERROR(final.Allocate(numbers(c.hidden_size), "rows"));
  TM_RETURN_IF_ERROR(qkv.Allocate(numbers(sizes.heads.QkvWidth()), "rows"));
  TM_RETURN_IF_ERROR(mixed.Allocate(numbers(c.q_size()), "rows"));
  TM_CUDA(cudaMemset(mixed.as(), 0, numbers(c.q_size())));  // rows of padding stay as they are
  TM_RETURN_IF_ERROR(gate_up.Allocate(numbers(2 * c.intermediate_size), "rows"));
  TM_RETURN_IF_ERROR(act.Allocate(numbers(c.intermediate_size), "rows"));
  TM_RETURN_IF_ERROR(AllocateDraws(c, sizes, writer));
  const size_t tiles =
      rows * (static_cast<size_t>(sizes.heads.heads / sizes.heads.kv_heads) / kCudaPrefillVectors +
              1) +
      rows;
  step_bytes = sizeof(CudaStepHead) +
               rows * (sizeof(CudaRow) + sizeof(CudaDraw) + sizeof(int32_t)) +
               tiles * sizeof(CudaPrefillTile) + 64;
  const size_t context_pages = static_cast<size_t>(sizes.max_context) / kCudaPageSlots + 2;
  step_bytes += rows * context_pages * sizeof(int32_t);
  TM_RETURN_IF_ERROR(meta.Allocate(step_bytes, "steps"));
  return MakeRotations(c, sizes.max_context);
}

Status DecoderMemory::AllocateDraws(const ModelConfig& c, const Sizes& sizes,
                                    const StepWriter& writer) {
  const auto rows = static_cast<size_t>(sizes.max_rows);
  size_t columns = static_cast<size_t>(c.vocab_size + 3);
  for (int draws = 1; draws <= sizes.max_rows; draws = BatchBucket(draws + 1)) {
    columns = std::max(
        columns, static_cast<size_t>(draws) *
                     static_cast<size_t>(LogitColumns(draws, static_cast<int>(c.vocab_size))));
  }
  TM_RETURN_IF_ERROR(logits.Allocate(columns * sizeof(float), "logits"));
  TM_RETURN_IF_ERROR(
      parts.Allocate(rows * static_cast<size_t>(sizes.parts) * sizeof(CudaPart), "draws"));
  size_t floats = 16;
  for (int now = 1; now <= sizes.max_rows; now = BatchBucket(now + 1)) {
    floats =
        std::max(floats, static_cast<size_t>(writer.Splits(now, true)) * static_cast<size_t>(now) *
                             static_cast<size_t>(sizes.heads.heads * (sizes.heads.head_dim + 2)));
  }
  TM_RETURN_IF_ERROR(partial.Allocate(floats * sizeof(float), "long contexts"));
  return drawn.Allocate(rows * sizeof(CudaDrawn), "draws");
}

Status DecoderMemory::MakeRotations(const ModelConfig& config, int32_t max_context) {
  const RopeFrequencies frequencies = ComputeRopeFrequencies(config);
  const size_t half = frequencies.inverse.size();
  const size_t positions = static_cast<size_t>(max_context);
  std::vector<float> cosines(positions * half), sines(positions * half);
  for (size_t p = 0; p < positions; ++p) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * frequencies.inverse[i];
      cosines[p * half + i] = std::cos(angle) * frequencies.attention_scaling;
      sines[p * half + i] = std::sin(angle) * frequencies.attention_scaling;
    }
  }
  const size_t bytes = cosines.size() * sizeof(float);
  TM_RETURN_IF_ERROR(cos.Allocate(bytes, "rotations"));
  TM_RETURN_IF_ERROR(sin.Allocate(bytes, "rotations"));
  TM_CUDA(cudaMemcpy(cos.as(), cosines.data(), bytes, cudaMemcpyHostToDevice));
  TM_CUDA(cudaMemcpy(sin.as(), sines.data(), bytes, cudaMemcpyHostToDevice));
  return Ok();
}

}  // namespace tidemill
