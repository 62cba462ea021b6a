#if defined(__x86_64__)
#define TM_LANES 8
#define TM_KERNELS_NAME "avx2"
#define TM_KERNELS_SYMBOL kAvx2Kernels
#include "engine/cpu/cpu_kernels.inc"
#endif
