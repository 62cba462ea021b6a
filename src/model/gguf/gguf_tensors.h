// Which tensors a model has: GGUF's names and orders beside those of a Hugging Face directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/gguf/gguf_file.h"
#include "model/model_config.h"

namespace tidemill {

struct GgufTensorPlan {
  const GgufTensor* source = nullptr;
  std::string name;  // in the directory
  std::vector<int64_t> shape;
  int64_t rotary_heads = 0;  // above 0: rows of so many heads have their rotary pairs interleaved
  int64_t part = 0, parts = 1;  // of the source, which has the matrices of several experts
};

// Every tensor the model has, each with its source. kInvalid names one that is missing, that has
// another shape, or that no model of the family has.
Result<std::vector<GgufTensorPlan>> PlanGgufTensors(const ModelConfig& config,
                                                    const std::vector<GgufTensor>& tensors,
                                                    const std::string& name);

// The tensor's numbers as the directory has them, in float32 or bfloat16; `out` has their size.
Status FillTensor(const GgufTensorPlan& plan, Dtype dtype, std::span<std::byte> out);

}  // namespace tidemill
