#include "engine/cpu/cpu_kernels.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "core/log.h"

namespace tidemill {

extern const CpuKernels kPlainKernels;
#if defined(__x86_64__)
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
#endif

namespace {

bool Runs(const char* name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (std::strcmp(name, "avx512") == 0) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma");
  }
  if (std::strcmp(name, "avx2") == 0) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  return std::strcmp(name, "plain") == 0;
}

}  // namespace

const CpuKernels* CpuKernelsNamed(const char* name) {
  if (!Runs(name)) return nullptr;
#if defined(__x86_64__)
  if (std::strcmp(name, "avx512") == 0) return &kAvx512Kernels;
  if (std::strcmp(name, "avx2") == 0) return &kAvx2Kernels;
#endif
  return &kPlainKernels;
}

const CpuKernels& ChooseCpuKernels(const char* asked) {
  if (asked != nullptr) {
    if (const CpuKernels* kernels = CpuKernelsNamed(asked)) return *kernels;
    LogWarn("TIDEMILL_CPU_KERNELS is none of avx512, avx2 and plain that this machine can run",
            {{"asked", asked}});
  }
  for (const char* name : {"avx512", "avx2"}) {
    if (const CpuKernels* kernels = CpuKernelsNamed(name)) return *kernels;
  }
  return kPlainKernels;
}

const CpuKernels& BestCpuKernels() {
  static const CpuKernels& chosen = ChooseCpuKernels(std::getenv("TIDEMILL_CPU_KERNELS"));
  return chosen;
}

}  // namespace tidemill
