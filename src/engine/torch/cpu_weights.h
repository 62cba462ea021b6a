// A model's weights and adapters as the CPU kernels want them: float32, packed in panels.
#pragma once

#include <array>
#include <vector>

#include "core/status.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/cpu/float_buffer.h"
#include "model/cuda/adapter_layout.h"
#include "model/model_config.h"

namespace tidemill {

class PolicyWeights;
struct LoraAdapter;

struct PackedMatrix {
  FloatBuffer values;
  FloatBuffer bias;  // empty: none
  long k = 0;
  long panels = 0;
};

// Norms hold what they multiply by; empty: none.
struct PackedLayer {
  FloatBuffer attention_in, attention_out, mlp_in, mlp_out;
  FloatBuffer q_norm, k_norm;
  PackedMatrix qkv, o, gate_up, down;
};

struct PackedWeights {
  FloatBuffer embed;  // [vocabulary, hidden padded], scaled
  std::vector<PackedLayer> layers;
  FloatBuffer norm;
  PackedMatrix head;
};

// Numbers in a row of `width` of them, padded.
inline long PaddedRow(long width) {
  return (width + kRowPad - 1) / kRowPad * kRowPad;
}

// The addition to a product: (x · a) · b, in the order of the product's own columns. No panels:
// the product has no adapter.
struct PackedLowRank {
  PackedMatrix a, b;
};
struct PackedAdapter {
  std::vector<std::array<PackedLowRank, kLayerProducts>> layers;
  const PackedLowRank& Of(long layer, LayerProduct product) const {
    return layers[static_cast<size_t>(layer)][static_cast<size_t>(product)];
  }
};

// Both copy: what is given is not needed afterwards. They throw what libtorch throws.
// The base without an adapter.
PackedWeights PackWeights(const PolicyWeights& weights, const CpuKernels& kernels);
// It fits the model (CheckAdapter).
PackedAdapter PackAdapter(const LoraAdapter& adapter, const ModelConfig& config,
                          const CpuKernels& kernels);

}  // namespace tidemill
