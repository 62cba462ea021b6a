// Checks of bytes from outside before they become weights.
#pragma once

#include <cstddef>

#include "core/status.h"
#include "model/safetensors.h"

namespace tidemill {

// kCorrupt names the tensor that has a NaN or an infinity. Types that cannot have one are fine.
Status CheckFinite(const TensorView& tensor);

// kInvalid: no version is as large as this machine's memory; somebody made the number up.
Status CheckWeightBytes(size_t bytes);

}  // namespace tidemill
