#include "engine/cuda/decoder_memory.h"

#include <algorithm>
#include <vector>

namespace tidemill {

Status DecoderMemory::Allocate(const ModelConfig& c, const Sizes& sizes, const StepWriter& writer) {
  const size_t bytes = CudaTypeBytes(sizes.heads.type);
  const auto rows = static_cast<size_t>(sizes.max_rows);
  const auto numbers = [&](int64_t width) { return rows * static_cast<size_t>(width) * bytes; };
  const size_t pages = static_cast<size_t>(sizes.pages) * CudaPageNumbers(c) * bytes *
                       static_cast<size_t>(c.num_layers);
  TM_RETURN_IF_ERROR(pool.Allocate(pages, "keys and values"));
  // Masked values are still multiplied with zero, so they must be numbers.
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
  const DecoderPlan plan = PlanDecoder(c);
  if (!plan.layers.front().attention_out.empty() || !plan.layers.front().mlp_out.empty()) {
    TM_RETURN_IF_ERROR(apart.Allocate(rows * static_cast<size_t>(c.hidden_size) * 4, "rows"));
  }
  return MakeRotations(plan, c.head_dim, sizes.max_context);
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

Status DecoderMemory::MakeRotations(const DecoderPlan& plan, int64_t head_dim,
                                    int32_t max_context) {
  for (const RopeConfig& rope : plan.ropes) {
    const RopeTable table = MakeRopeTable(rope, head_dim, max_context);
    const size_t bytes = table.cos.size() * sizeof(float);
    Rotation& rotation = rotations.emplace_back();
    TM_RETURN_IF_ERROR(rotation.cos.Allocate(bytes, "rotations"));
    TM_RETURN_IF_ERROR(rotation.sin.Allocate(bytes, "rotations"));
    TM_CUDA(cudaMemcpy(rotation.cos.as(), table.cos.data(), bytes, cudaMemcpyHostToDevice));
    TM_CUDA(cudaMemcpy(rotation.sin.as(), table.sin.data(), bytes, cudaMemcpyHostToDevice));
  }
  return Ok();
}

}  // namespace tidemill
