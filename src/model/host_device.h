// Marks functions of headers that the CPU's code and a GPU's kernels share.
#pragma once

#ifdef __CUDACC__
#define TM_HOST_DEVICE __host__ __device__
#else
#define TM_HOST_DEVICE
#endif
