// The contents of a CPU engine's places: bases, packed once, and the adapters on them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "engine/decode_backend.h"
#include "engine/torch/cpu_weights.h"

namespace tidemill {

// In a place: a base, which several places share, and what is added to its products.
struct PackedPolicy {
  std::shared_ptr<const PackedWeights> base;
  std::shared_ptr<const PackedAdapter> adapter;  // null: none
};

// Thread-safe.
class PolicyPacker {
 public:
  // `bytes`: bases are packed in eight bits.
  PolicyPacker(const CpuKernels& kernels, bool bytes) : kernels_(kernels), bytes_(bytes) {}

  // A base that somebody still has packed is not packed again. Throws what libtorch throws.
  PackedPolicy Pack(const PolicyWeights& weights) const;

 private:
  // A base that was packed. It is known by its tensors, which it does not keep.
  struct Base {
    bool Is(const PolicyWeights& weights) const;
    std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> tensors{};  // by name
    std::weak_ptr<const PackedWeights> packed{};
  };
  std::shared_ptr<const PackedWeights> PackBase(const PolicyWeights& weights) const;

  const CpuKernels& kernels_;
  const bool bytes_;
  mutable Mutex mutex_;
  mutable std::vector<Base> bases_ TM_GUARDED_BY(mutex_);
};

// The order in which segments of one base are together, and within a base those of one place.
std::vector<size_t> OrderByBase(std::span<const PackedPolicy> places,
                                std::span<const StepSegment> segments);

}  // namespace tidemill
