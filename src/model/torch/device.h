// Where tensors are computed on: the CPU or a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"

namespace at {
class Tensor;
}

namespace tidemill {

// "auto" is the first GPU where this program was built with CUDA and there is one, else the CPU;
// "cpu", "cuda" and "cuda:N" are themselves. kInvalid says why there is no such device.
Result<std::string> ResolveDevice(const std::string& wanted);

bool IsGpu(const std::string& device);
// Whether the GPU's path computes with this tensor. Who chooses that path asks this, not the
// tensor: tests run it on the CPU (tests/cuda_host).
bool OnGpu(const at::Tensor& tensor);

// The free memory of a GPU; 0 on a CPU. kInternal: the GPU does not answer.
Result<uint64_t> FreeDeviceBytes(const std::string& device);

// Memory for keys and values where nobody said how much: half a gigabyte of the host's, a quarter
// of what is free on a GPU, which leaves the rest to the learner. kInternal: the GPU does not
// answer.
Result<uint64_t> DefaultCacheBytes(const std::string& device);

class PolicyWeights;
// The weights an engine is started with: bfloat16 on a GPU, the same on a CPU. Weights that are
// bfloat16 there already are themselves, also with an adapter if their base lies in one block
// (model/torch/weight_block.h); else it is merged.
Result<std::shared_ptr<const PolicyWeights>> WeightsToSample(
    const std::shared_ptr<const PolicyWeights>& weights);

}  // namespace tidemill
