// A microbatch as tensors: what the decoder runs on, and for each trained token where its
// prediction is.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "learner/packing.h"
#include "learner/torch/fused_decoder.h"
#include "model/torch/draw_supports.h"
#include "model/torch/model.h"

namespace tidemill {

// k is the number of trained tokens, in the order of the rows and within a row of the tokens.
struct MicroTensors {
  SegmentedPack pack;     // what the decoder runs on: rows that share their prompt have it once
  PackedBatch packed;     // the same for the model's own forward pass; empty for the fused decoder
  at::Tensor rows;        // int64: the tokens of the pack whose hidden states are needed, each once
  at::Tensor row_of;      // int64 [k]: which of `rows` predicts the token
  at::Tensor targets;     // int64 [k]
  at::Tensor behaviour;   // float [k]
  at::Tensor lags;        // float [k]
  at::Tensor advantages;  // float [k]
  at::Tensor sequence;    // int64 [k]: row of the microbatch
  at::Tensor temperatures;  // float [k]; undefined where all are `temperature`
  double temperature = 1;
  // What the k were drawn from; null: all from the whole vocabulary. Shared with the scores' own
  // backward pass.
  std::shared_ptr<const DrawSupports> supports;
  std::vector<int32_t> sequences;   // per row: index among the step's sequences
  std::vector<int64_t> row_tokens;  // per row: how many of the k are its own
};

// `fused`: leave `packed` empty. A row's first token must not be trained.
MicroTensors MakeMicroTensors(const Microbatch& micro, bool fused, const std::string& device);

// Values by sequence ([sequence][trained token]) as one tensor in the order of the microbatch, and
// back.
at::Tensor GatherBySequence(const std::vector<std::vector<float>>& values,
                            const MicroTensors& micro, const at::Device& device);
void ScatterBySequence(const at::Tensor& values, const MicroTensors& micro,
                       std::vector<std::vector<float>>& to);

}  // namespace tidemill
