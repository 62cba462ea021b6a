// Products with matrices that nobody trains and that are kept in fewer bits than they are
// multiplied in.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemill {

// y = x Wᵀ + b in the type of x; an undefined bias is none. The matrix is cast for the product and
// once more for the gradient of x, and no cast is kept between them: autograd alone would keep one
// of every matrix. Neither weight nor bias gets a gradient.
at::Tensor FrozenProduct(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace tidemill
