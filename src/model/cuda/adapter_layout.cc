#include "model/cuda/adapter_layout.h"

namespace tidemill {
namespace {

constexpr int64_t kRankStep = 8;           // 16 bytes of bfloat16, which the tensor cores want
constexpr size_t kAdapterAlignment = 128;  // numbers: 256 bytes or more

struct Widths {
  int64_t in, out;
};
Widths WidthsOf(const ModelConfig& c, size_t module) {
  switch (module) {
    case 0:
      return {c.hidden_size, c.q_size()};
    case 1:
    case 2:
      return {c.hidden_size, c.kv_size()};
    case 3:
      return {c.q_size(), c.hidden_size};
    case 4:
    case 5:
      return {c.hidden_size, c.intermediate_size};
    default:
      return {c.intermediate_size, c.hidden_size};
  }
}

}  // namespace

std::string ModuleName(int64_t layer, size_t i) {
  return "model.layers." + std::to_string(layer) + "." + kLayerModules[i].name;
}

AdapterLayout MakeAdapterLayout(const ModelConfig& config, const AdapterRanks& ranks) {
  AdapterLayout layout;
  for (size_t i = 0; i < kLayerModules.size(); ++i) {
    AdapterLayout::Product& product =
        layout.products[static_cast<size_t>(kLayerModules[i].product)];
    const Widths widths = WidthsOf(config, i);
    layout.modules[i] = {
        .rank = ranks[i], .out = widths.out, .first_low = product.rank, .first_out = product.out};
    product.in = widths.in;
    product.out += widths.out;
    product.rank += ranks[i];
  }
  const auto place = [&](size_t numbers) {
    const size_t first = layout.layer_numbers;
    layout.layer_numbers +=
        (numbers + kAdapterAlignment - 1) / kAdapterAlignment * kAdapterAlignment;
    return first;
  };
  for (AdapterLayout::Product& product : layout.products) {
    product.rank = (product.rank + kRankStep - 1) / kRankStep * kRankStep;
    product.a = place(product.ANumbers());
    product.b = place(product.BNumbers());
  }
  layout.numbers = layout.layer_numbers * static_cast<size_t>(config.num_layers);
  return layout;
}

}  // namespace tidemill
