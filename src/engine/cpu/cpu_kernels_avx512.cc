#if defined(__x86_64__)
#define TM_LANES 16
#define TM_KERNELS_NAME "avx512"
#define TM_KERNELS_SYMBOL kAvx512Kernels
#include "engine/cpu/cpu_kernels.inc"
#endif
