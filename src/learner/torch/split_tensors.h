// Tensors of float32 in two halves (model/split_float.h): bfloat16 and the rest in 16 bits.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemill {

// `high` and `rest`, of value's size on any device, become the halves of `value`. Computed on the
// host in pieces: needs no memory of value's size. Throws what libtorch throws.
void SplitInto(const at::Tensor& value, at::Tensor high, at::Tensor rest);

// The float32 numbers, on the halves' device.
at::Tensor Joined(const at::Tensor& high, const at::Tensor& rest);

}  // namespace tidemill
