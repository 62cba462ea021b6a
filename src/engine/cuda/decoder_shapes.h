// The products of a decoder: of `rows` rows with the matrices of a layer, and with the head.
#pragma once

#include "engine/cuda/gemm.h"
#include "model/cuda/adapter_layout.h"
#include "model/model_config.h"

namespace tidemill {

struct DecoderShapes {
  const ModelConfig& config;
  CudaType type = CudaType::kBF16;
  int qkv_width = 0;
  // Products behind which there is a norm come out by themselves; others are added to the rows that
  // go from layer to layer.
  bool attention_apart = false, mlp_apart = false;

  GemmShape Of(LayerProduct product, int rows) const {
    switch (product) {
      case LayerProduct::kQkv:
        return Rows(rows, qkv_width, Hidden(), config.qkv_bias);
      case LayerProduct::kO:
        return Wide(rows, static_cast<int>(config.q_size()), !attention_apart);
      case LayerProduct::kGateUp:
        return Rows(rows, 2 * FeedForward(), Hidden(), config.mlp_bias);
      default:
        return Wide(rows, FeedForward(), !mlp_apart);
    }
  }
  // Logits of some columns, in float32, `stride` apart.
  GemmShape Head(int rows, int columns, int stride) const {
    return {.type = type,
            .wide = true,
            .accumulate = false,
            .bias = false,
            .rows = rows,
            .n = columns,
            .k = Hidden(),
            .stride = (stride + 3) / 4 * 4};
  }

 private:
  int Hidden() const { return static_cast<int>(config.hidden_size); }
  int FeedForward() const { return static_cast<int>(config.intermediate_size); }
  GemmShape Rows(int rows, int n, int k, bool bias) const {
    return {.type = type,
            .wide = false,
            .accumulate = false,
            .bias = bias,
            .rows = rows,
            .n = n,
            .k = k,
            .stride = n};
  }
  // In float32; `adds`: to what is there.
  GemmShape Wide(int rows, int k, bool adds) const {
    return {.type = type,
            .wide = true,
            .accumulate = adds,
            .bias = false,
            .rows = rows,
            .n = Hidden(),
            .k = k,
            .stride = Hidden()};
  }
};

}  // namespace tidemill
