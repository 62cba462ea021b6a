// Shared by the files of the training kernels.
#pragma once

#include "model/cuda/convert.cuh"
#include "model/cuda/launch.cuh"
#include "model/cuda/train_kernels.h"

namespace tidemill {

using bf16 = __nv_bfloat16;

inline unsigned BlocksFor(int64_t count, int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

inline const bf16* In(const void* p) {
  return static_cast<const bf16*>(p);
}
inline bf16* Out(void* p) {
  return static_cast<bf16*>(p);
}

}  // namespace tidemill
