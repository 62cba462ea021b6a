// PolicyWeights as they travel to other processes, and back: all tensors, or, where there is an
// adapter, the adapter alone, which rides on a base both sides have.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "model/torch/model.h"
#include "weights/weight_publisher.h"
#include "weights/weight_wire.h"

namespace tidemill {

// `weights` must outlive the result where its tensors are on the CPU already.
Result<EncodedWeights> EncodeWeights(const Weights& weights);

struct DecodeOptions {
  ModelConfig config;
  // The base of adapters; null where the run trains all weights.
  std::shared_ptr<const PolicyWeights> base;
  std::string device = "cpu";
};

// The tensors share the blob's bytes where they stay on the CPU. kInvalid: they are not those of
// such a model; kCorrupt: no weights at all.
Result<std::shared_ptr<const Weights>> DecodeWeights(const WeightBlob& blob,
                                                     const DecodeOptions& options);

}  // namespace tidemill
