// The memory a decoder works in, besides its weights.
#pragma once

#include <deque>

#include "engine/cuda/step_layout.h"
#include "model/cuda/check.h"
#include "model/cuda/kernels.h"
#include "model/layer_plan.h"
#include "model/model_config.h"

namespace tidemill {

// Numbers of a page of one layer.
inline size_t CudaPageNumbers(const ModelConfig& c) {
  return static_cast<size_t>(2 * c.kv_size()) * kCudaPageSlots;
}

struct DecoderMemory {
  CudaBuffer pool;  // keys and values, by layer
  struct Rotation {
    CudaBuffer cos, sin;  // [position, head_dim / 2]
  };
  std::deque<Rotation> rotations;                 // by the plan's ropes; buffers never move
  CudaBuffer x;                                   // float32 rows from layer to layer
  CudaBuffer apart;                               // a product before its norm, float32
  CudaBuffer h, final, qkv, mixed, gate_up, act;  // rows within one
  CudaBuffer logits, parts, partial;              // of draws, and of long contexts
  CudaBuffer meta;                                // rows, pages and draws of a step
  CudaBuffer drawn;                               // by the last step, for the next
  size_t step_bytes = 0;                          // of the largest step

  struct Sizes {
    CudaHeads heads;
    int max_rows = 0;  // of a step
    int32_t pages = 0;
    int32_t max_context = 0;
    int parts = 0;  // of a row of logits
  };
  // kFull: the GPU has not enough memory, with what it was for.
  Status Allocate(const ModelConfig& config, const Sizes& sizes, const StepWriter& writer);

 private:
  Status AllocateDraws(const ModelConfig& config, const Sizes& sizes, const StepWriter& writer);
  Status MakeRotations(const DecoderPlan& plan, int64_t head_dim, int32_t max_context);
};

}  // namespace tidemill
