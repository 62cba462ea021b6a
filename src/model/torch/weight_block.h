// Weights whose tensors are parts of one block of memory, laid out as a GPU engine reads them
// (model/cuda/weight_layout.h): engine and learner can read the same block, and what is multiplied
// together is one matrix.
//
//   files, a seed or other weights -> several threads, in pieces of some megabytes -> block
//
// On a GPU pieces travel through pinned memory; no whole set of weights exists anywhere else.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "core/status.h"
#include "model/cuda/weight_layout.h"
#include "model/torch/model.h"

namespace tidemill {

struct WeightBlockOptions {
  std::string device = "cpu";
  Dtype dtype = Dtype::kBF16;  // F32 or BF16
  int threads = 0;             // that read and convert; 0: one for each core
};

// A Hugging Face directory whose tensors are F32, BF16 or F16. Fails as PolicyWeights::Load does.
Result<std::shared_ptr<const PolicyWeights>> LoadWeightBlock(const std::string& dir,
                                                             const WeightBlockOptions& options);
// The numbers of PolicyWeights::NewRandom.
Result<std::shared_ptr<const PolicyWeights>> RandomWeightBlock(const ModelConfig& config,
                                                               uint64_t seed,
                                                               const WeightBlockOptions& options);
// A copy of the base of `weights`, wherever and whatever they are; an adapter is left out.
Result<std::shared_ptr<const PolicyWeights>> CopyWeightBlock(const PolicyWeights& weights,
                                                             const WeightBlockOptions& options);

// Where the base of `weights` begins if all of it lies in one block of one type in this layout, the
// one of their config. Null: it does not.
const void* WholeBlock(const PolicyWeights& weights, const WeightLayout& layout);
const void* WholeBlock(const PolicyWeights& weights);

// The part of a block, a vector in this layout, that is one tensor.
at::Tensor BlockPart(const at::Tensor& block, const WeightPlace& place);

}  // namespace tidemill
