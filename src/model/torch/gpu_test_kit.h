// For tests that need a GPU and are skipped where there is none.
#pragma once

#include "model/torch/aten.h"

#include <gtest/gtest.h>

namespace tidemill {

inline bool HasGpu() {
#ifdef TIDEMILL_CUDA
  return at::hasCUDA();
#else
  return false;
#endif
}

#define SKIP_WITHOUT_GPU() \
  if (!HasGpu()) GTEST_SKIP() << "no GPU, or built without CUDA"

}  // namespace tidemill
