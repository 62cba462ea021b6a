#define TRAIN_KERNELS kTrainKernelsAvx512
#define TRAIN_KERNELS_NAME "avx512"
#include "learner/torch/train_kernels.inc"
