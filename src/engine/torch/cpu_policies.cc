#include "engine/torch/cpu_policies.h"

#include <algorithm>
#include <numeric>

#include "model/torch/model.h"

namespace tidemill {

// A tensor that is gone has an address that no other takes while it is named here.
bool PolicyPacker::Base::Is(const PolicyWeights& weights) const {
  return std::equal(tensors.begin(), tensors.end(), weights.tensors().begin(),
                    weights.tensors().end(), [](const auto& mine, const auto& their) {
                      return mine._unsafe_get_target() == their.second.unsafeGetTensorImpl();
                    });
}

std::shared_ptr<const PackedWeights> PolicyPacker::PackBase(const PolicyWeights& weights) const {
  MutexLock lock(mutex_);
  std::erase_if(bases_, [](const Base& base) { return base.packed.expired(); });
  for (const Base& base : bases_) {
    if (auto packed = base.packed.lock(); packed != nullptr && base.Is(weights)) return packed;
  }
  auto packed = std::make_shared<const PackedWeights>(bytes_ ? PackWeightsInBytes(weights, kernels_)
                                                             : PackWeights(weights, kernels_));
  Base& base = bases_.emplace_back();
  for (const auto& [name, tensor] : weights.tensors()) {
    base.tensors.emplace_back(tensor.getIntrusivePtr());
  }
  base.packed = packed;
  return packed;
}

PackedPolicy PolicyPacker::Pack(const PolicyWeights& weights) const {
  PackedPolicy policy{.base = PackBase(weights), .adapter = nullptr};
  if (weights.adapter() != nullptr) {
    policy.adapter = std::make_shared<const PackedAdapter>(
        PackAdapter(*weights.adapter(), weights.config(), kernels_));
  }
  return policy;
}

std::vector<size_t> OrderByBase(std::span<const PackedPolicy> places,
                                std::span<const StepSegment> segments) {
  std::vector<size_t> order(segments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const auto place = static_cast<size_t>(segments[i].weights);
    size_t first = 0;  // that has the same base
    while (places[first].base != places[place].base) ++first;
    return std::pair(first, place);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace tidemill
