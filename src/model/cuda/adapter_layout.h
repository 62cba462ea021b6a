// Where the matrices of a low-rank adapter lie in the one block of memory a GPU engine keeps them
// in. Each of the four products of a layer has
//
//   out = h Wᵀ + (h Aᵀ) Bᵀ
//
// where A [rank, in] has those of the product's modules one below the other, and B [out, rank] has
// each module's in its own rows and columns, its scale included; all else is zero. So two small
// products do for several modules, and an adapter of a smaller rank or fewer modules fits too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace tidemill {

enum class LayerProduct : uint8_t { kQkv, kO, kGateUp, kDown };
inline constexpr size_t kLayerProducts = 4;

// The projections of a layer, in the order in which they lie (model/cuda/weight_layout.h).
struct LayerModule {
  const char* name;  // "self_attn.q_proj"
  LayerProduct product;
};
inline constexpr std::array<LayerModule, 7> kLayerModules = {{
    {"self_attn.q_proj", LayerProduct::kQkv},
    {"self_attn.k_proj", LayerProduct::kQkv},
    {"self_attn.v_proj", LayerProduct::kQkv},
    {"self_attn.o_proj", LayerProduct::kO},
    {"mlp.gate_proj", LayerProduct::kGateUp},
    {"mlp.up_proj", LayerProduct::kGateUp},
    {"mlp.down_proj", LayerProduct::kDown},
}};
// Of module `i` of kLayerModules in layer `layer`: "model.layers.3.self_attn.q_proj".
std::string ModuleName(int64_t layer, size_t i);

// The largest rank of each of kLayerModules in any layer; 0: it has no adapter.
using AdapterRanks = std::array<int64_t, kLayerModules.size()>;

struct AdapterLayout {
  // One module's part of its product.
  struct Module {
    int64_t rank = 0;
    int64_t out = 0;        // rows of its B
    int64_t first_low = 0;  // its first row of A, and column of B
    int64_t first_out = 0;  // its first row of B
  };
  struct Product {
    int64_t in = 0, out = 0;
    int64_t rank = 0;     // of all its modules and some padding; 0: no adapter
    size_t a = 0, b = 0;  // where A and B begin in a layer, in numbers
    size_t ANumbers() const { return static_cast<size_t>(rank * in); }
    size_t BNumbers() const { return static_cast<size_t>(out * rank); }
  };

  std::array<Module, kLayerModules.size()> modules;
  std::array<Product, kLayerProducts> products;
  size_t layer_numbers = 0;  // layers lie one after the other
  size_t numbers = 0;

  const Product& Of(LayerProduct product) const { return products[static_cast<size_t>(product)]; }
  bool empty() const { return numbers == 0; }
};

AdapterLayout MakeAdapterLayout(const ModelConfig& config, const AdapterRanks& ranks);

}  // namespace tidemill
