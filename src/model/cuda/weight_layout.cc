#include "model/cuda/weight_layout.h"

#include <algorithm>
#include <utility>

#include "core/status.h"
#include "model/layer_plan.h"

namespace tidemill {
namespace {

constexpr size_t kAlignment = 128;  // numbers: 256 bytes or more

}  // namespace

const WeightPlace& WeightLayout::Of(const std::string& name) const {
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const WeightPlace& place) { return place.name == name; });
  TM_CHECK(found != places.end(), name);
  return *found;
}

WeightLayout MakeWeightLayout(const ModelConfig& config) {
  const auto align = [](size_t numbers) {
    return (numbers + kAlignment - 1) / kAlignment * kAlignment;
  };
  WeightLayout layout;
  for (PlannedTensor& tensor : PlanTensors(config)) {
    if (!tensor.joined) layout.numbers = align(layout.numbers);
    const auto numbers = static_cast<size_t>(tensor.numbers());
    layout.places.push_back({std::move(tensor.name), layout.numbers, std::move(tensor.shape)});
    layout.numbers += numbers;
  }
  layout.numbers = align(layout.numbers);
  return layout;
}

}  // namespace tidemill
