#ifdef TIDEMILL_CUDA

#include "model/torch/product_pieces.h"

#include <ATen/ATen.h>

#include "model/torch/gpu_products.h"

namespace tidemill {

using at::Tensor;

Tensor LinearInPieces(const Tensor& x, const Tensor& weight, const Tensor& bias, double most) {
  const int64_t rows = x.size(0);
  if (RowsOfPiece(rows, RowOperations(weight), most) >= rows) return LinearProduct(x, weight, bias);
  Tensor y = at::empty({rows, weight.size(0)}, x.options());
  InPieces(rows, RowOperations(weight), most, [&](int64_t first, int64_t count) {
    y.narrow(0, first, count).copy_(LinearProduct(x.narrow(0, first, count), weight, bias));
  });
  return y;
}

Tensor ProductInPieces(const Tensor& a, const Tensor& b, double most) {
  Tensor product = at::empty({a.size(0), b.size(1)}, a.options());
  InPieces(a.size(0), RowOperations(b), most, [&](int64_t first, int64_t count) {
    LowProductInto(a.narrow(0, first, count), b, product.narrow(0, first, count));
  });
  return product;
}

void AddProductInPieces(const Tensor& a, const Tensor& b, Tensor gradient, double most) {
  InPieces(gradient.size(0), RowOperations(b), most, [&](int64_t first, int64_t count) {
    AddProduct(a.narrow(1, first, count), b, gradient.narrow(0, first, count));
  });
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
