// A model's weights as the CPU kernels want them: float32, packed in panels, adapters merged in.
#pragma once

#include <vector>

#include "core/status.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/cpu/float_buffer.h"
#include "model/model_config.h"

namespace tidemill {

class PolicyWeights;

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

// Copies; `weights` is not needed afterwards. Throws what libtorch throws.
PackedWeights PackWeights(const PolicyWeights& weights, const CpuKernels& kernels);

}  // namespace tidemill
