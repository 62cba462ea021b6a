#include "learner/torch/train_kernels.h"

namespace tidemill {

const TrainKernels& ChooseTrainKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return kTrainKernelsAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kTrainKernelsAvx2;
#endif
  return kTrainKernelsPlain;
}

}  // namespace tidemill
