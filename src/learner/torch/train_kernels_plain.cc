#define TRAIN_KERNELS kTrainKernelsPlain
#define TRAIN_KERNELS_NAME "plain"
#include "learner/torch/train_kernels.inc"
