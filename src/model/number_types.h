// Numbers of the types that weights are stored in, to and from float32.
#pragma once

#include <cstddef>

#include "model/dtype.h"

namespace tidemill {

// F32, BF16 and F16.
bool IsWeightType(Dtype dtype);

// `count` numbers of a weight type, which need not be aligned. Exact.
void ToFloat32(Dtype from, const std::byte* in, size_t count, float* out);
// To the nearest, ties to even; what is too large for F16 becomes infinite.
void FromFloat32(const float* in, size_t count, Dtype to, std::byte* out);

}  // namespace tidemill
