// Attention of the training pass on a GPU: rotation and attention over a pack in bfloat16. Only in
// builds with CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "model/layer_plan.h"
#include "model/torch/attention.h"
#include "model/torch/model.h"
#include "model/torch/packed_flash.h"

namespace tidemill {

// Float32 [n, head_dim / 2].
struct Angles {
  at::Tensor cos, sin;
};

// A pack as attention needs it.
struct PackShape {
  DecoderPlan plan;
  std::vector<Angles> angles;  // by the plan's ropes
  PackSight sight;             // for layers with a window
  FlashPack pack;              // where sequences and their keys begin
  at::Tensor key_rows;         // int64; undefined: every row's keys once, in their order
  at::Tensor first_use, uses;  // int32: of each row, where among key_rows it stands
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

using Qkv = FlashInput;
// Of rows [n, (heads + 2 kv_heads) d].
Qkv QkvViews(const at::Tensor& rows, int64_t heads, int64_t kv_heads, int64_t d);

std::shared_ptr<const PackShape> CudaPackShape(const ModelConfig& config, const PackedBatch& batch);

// Queries, keys and values of each row, normalized, to what layer `layer` makes of them.
at::Tensor CudaAttention(const at::Tensor& qkv, const std::shared_ptr<const PackShape>& shape,
                         size_t layer);

}  // namespace tidemill
