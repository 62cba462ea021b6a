#define TM_LANES 4
#define TM_KERNELS_NAME "plain"
#define TM_KERNELS_SYMBOL kPlainKernels
#include "engine/cpu/cpu_kernels.inc"
