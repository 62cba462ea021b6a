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
struct ModelTensorsView;
struct LoraAdapter;

struct PackedMatrix {
  FloatBuffer values;  // empty: in bytes
  std::vector<signed char> bytes;
  FloatBuffer scales;  // of `bytes`
  FloatBuffer bias;    // empty: none
  long k = 0;
  long panels = 0;

  // A product with these numbers; whose, where to and how is left open.
  MatmulArgs Args() const;
  // In eight bits, a quarter of the memory.
  void Quantize(const CpuKernels& kernels);
};

// c = a·w as `mode` says; `start`: MatmulArgs'.
inline void MultiplyRows(const CpuKernels& kernels, const float* a, long lda,
                         const PackedMatrix& matrix, long rows, float* c, long ldc, MatmulMode mode,
                         const float* start = nullptr) {
  MatmulArgs args = matrix.Args();
  args.a = a;
  args.lda = lda;
  args.rows = rows;
  args.c = c;
  args.ldc = ldc;
  args.mode = mode;
  args.start = start;
  kernels.matmul(args);
}

struct PackedExpert {
  PackedMatrix gate_up, down;
};

// Norms hold what they multiply by; empty: none.
struct PackedLayer {
  FloatBuffer attention_in, attention_out, mlp_in, mlp_out;
  FloatBuffer q_norm, k_norm;
  PackedMatrix qkv, o;
  PackedMatrix gate_up, down;  // without experts
  PackedMatrix router;
  FloatBuffer router_bias;  // of its choice; empty: none
  std::vector<PackedExpert> experts;
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
  struct Expert {
    PackedLowRank gate_up, down;
  };
  std::vector<std::array<PackedLowRank, kLayerProducts>> layers;
  std::vector<std::vector<Expert>> experts;  // by layer; empty: none of it is adapted
  const PackedLowRank& Of(long layer, LayerProduct product) const {
    return layers[static_cast<size_t>(layer)][static_cast<size_t>(product)];
  }
};

// Both copy: what is given is not needed afterwards. They throw what libtorch throws.
// The base without an adapter.
PackedWeights PackWeights(const PolicyWeights& weights, const CpuKernels& kernels);
PackedWeights PackView(const ModelTensorsView& view, const ModelConfig& config,
                       const CpuKernels& kernels);
// All products but the routers' in eight bits.
PackedWeights PackWeightsInBytes(const PolicyWeights& weights, const CpuKernels& kernels);
// It fits the model (CheckAdapter).
PackedAdapter PackAdapter(const LoraAdapter& adapter, const ModelConfig& config,
                          const CpuKernels& kernels);

}  // namespace tidemill
