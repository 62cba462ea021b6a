#include "model/torch/adapter_block.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "model/torch/catch.h"

namespace tidemill {

AdapterRanks RanksOf(const LoraAdapter& adapter, const ModelConfig& config) {
  AdapterRanks ranks{};
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto a = adapter.tensors.find(ModuleName(layer, i) + ".lora_A.weight");
      if (a != adapter.tensors.end()) ranks[i] = std::max(ranks[i], a->second.size(0));
    }
  }
  return ranks;
}

AdapterMatrices AdapterMatricesOf(const at::Tensor& block, const AdapterLayout& layout,
                                  int64_t layer, LayerProduct product) {
  const AdapterLayout::Product& p = layout.Of(product);
  const size_t first = static_cast<size_t>(layer) * layout.layer_numbers;
  const auto part = [&](size_t at, size_t numbers) {
    return block.narrow(0, static_cast<int64_t>(first + at), static_cast<int64_t>(numbers));
  };
  return {part(p.a, p.ANumbers()).view({p.rank, p.in}),
          part(p.b, p.BNumbers()).view({p.out, p.rank})};
}

Result<at::Tensor> AdapterBlock(const LoraAdapter* adapter, const ModelConfig& config,
                                const AdapterLayout& layout, const at::Device& device,
                                at::ScalarType type) {
  return CatchTorch<at::Tensor>("laying out an adapter", [&]() -> Result<at::Tensor> {
    const at::NoGradGuard no_grad;
    const at::Tensor block = at::zeros({static_cast<int64_t>(layout.numbers)},
                                       at::TensorOptions().dtype(type).device(device));
    if (adapter == nullptr) return block;
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      for (size_t i = 0; i < kLayerModules.size(); ++i) {
        const std::string name = ModuleName(layer, i);
        const auto found = adapter->tensors.find(name + ".lora_A.weight");
        if (found == adapter->tensors.end()) continue;
        const at::Tensor& a = found->second;
        const at::Tensor& b = adapter->tensors.at(name + ".lora_B.weight");
        const AdapterLayout::Module& module = layout.modules[i];
        if (a.size(0) > module.rank) {
          return Invalid("the adapter's " + name + " has rank " + std::to_string(a.size(0)) +
                         ", this engine was started with room for " +
                         (module.rank > 0 ? "rank " + std::to_string(module.rank) : "none"));
        }
        const AdapterMatrices to =
            AdapterMatricesOf(block, layout, layer, kLayerModules[i].product);
        to.a.narrow(0, module.first_low, a.size(0)).copy_(a.detach());
        to.b.narrow(0, module.first_out, module.out)
            .narrow(1, module.first_low, a.size(0))
            .copy_(b.detach().to(at::kFloat) * adapter->config.ScalingOf(name));
      }
    }
    return block;
  });
}

}  // namespace tidemill
