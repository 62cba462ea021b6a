// Long matrix products in pieces. A product of all multiprocessors lets an engine on the same GPU
// wait until its end; several short ones let it in between.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace tidemill {

// How many of `rows` are one piece, where a piece has at most `most` operations (0: no bound) and a
// row takes `row_operations`: equal pieces, of a multiple of 128 rows, whatever the bound.
inline int64_t RowsOfPiece(int64_t rows, double row_operations, double most) {
  constexpr int64_t kTile = 128;
  if (most <= 0 || static_cast<double>(rows) * row_operations <= most) return rows;
  const auto fitting = static_cast<int64_t>(most / row_operations);
  const int64_t pieces = (rows + std::max(fitting, kTile) - 1) / std::max(fitting, kTile);
  const int64_t even = (rows + pieces - 1) / pieces;
  return (even + kTile - 1) / kTile * kTile;
}

// Calls `piece` with the first row and the number of rows of each piece, in order.
template <typename Piece>
void InPieces(int64_t rows, double row_operations, double most, Piece&& piece) {
  const int64_t at_once = RowsOfPiece(rows, row_operations, most);
  for (int64_t first = 0; first < rows; first += at_once) {
    piece(first, std::min(at_once, rows - first));
  }
}

// The cost of a row of x in x W or x Wᵀ.
inline double RowOperations(const at::Tensor& weight) {
  return 2.0 * static_cast<double>(weight.numel());
}

#ifdef TIDEMILL_CUDA
// Those of model/torch/gpu_products.h. Not differentiable.
at::Tensor LinearInPieces(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          double most);
at::Tensor ProductInPieces(const at::Tensor& a, const at::Tensor& b, double most);
// By rows of the gradient, not of a and b: each number is then written once, as without pieces.
void AddProductInPieces(const at::Tensor& a, const at::Tensor& b, at::Tensor gradient, double most);
#endif

}  // namespace tidemill
