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

  GemmShape Of(LayerProduct product, int rows) const {
    switch (product) {
      case LayerProduct::kQkv:
        return Rows(rows, qkv_width, Hidden(), config.qkv_bias, false);
      case LayerProduct::kO:
        return Rows(rows, Hidden(), static_cast<int>(config.q_size()), false, true);
      case LayerProduct::kGateUp:
        return Rows(rows, 2 * FeedForward(), Hidden(), config.mlp_bias, false);
      default:
        return Rows(rows, Hidden(), FeedForward(), false, true);
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
  // `into_x`: added to the float32 rows that go from layer to layer.
  GemmShape Rows(int rows, int n, int k, bool bias, bool into_x) const {
    return {.type = type,
            .wide = into_x,
            .accumulate = into_x,
            .bias = bias,
            .rows = rows,
            .n = n,
            .k = k,
            .stride = n};
  }
};

}  // namespace tidemill
