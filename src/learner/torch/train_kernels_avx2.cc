#define TRAIN_KERNELS kTrainKernelsAvx2
#define TRAIN_KERNELS_NAME "avx2"
#include "learner/torch/train_kernels.inc"
