#include "engine/cuda/steps_under_way.h"

#include <cstring>

#include "model/cuda/check.h"

namespace tidemill {

StepsUnderWay::~StepsUnderWay() {
  for (Step& step : steps_) {
    if (step.done != nullptr) cudaEventDestroy(step.done);
    cudaFreeHost(step.host);
  }
  cudaFreeHost(told_);
}

Status StepsUnderWay::Allocate(size_t bytes, int draws) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    TM_CUDA(cudaMallocHost(reinterpret_cast<void**>(&step.host), bytes));
    std::memset(step.host, 0, bytes);
    step.head()->told_block = static_cast<int32_t>(i);
    TM_CUDA(cudaEventCreateWithFlags(&step.done, cudaEventDisableTiming));
  }
  told_stride_ = draws;
  TM_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&told_),
                        steps_.size() * static_cast<size_t>(draws) * sizeof(CudaDrawn),
                        cudaHostAllocMapped));
  TM_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&told_device_), told_, 0));
  return Ok();
}

Status StepsUnderWay::Started(cudaStream_t stream) {
  TM_CUDA(cudaEventRecord(next().done, stream));
  ++started_;
  return Ok();
}

Status StepsUnderWay::Finish(std::span<CudaDrawn> drawn) {
  TM_CHECK(!none(), "a step is under way");
  const Step& step = steps_[finished_++ % steps_.size()];
  TM_CUDA(cudaEventSynchronize(step.done));
  step.head()->copies.count = 0;
  const CudaDrawn* told = told_ + static_cast<ptrdiff_t>(step.head()->told_block) * told_stride_;
  for (size_t i = 0; i < step.draws.size(); ++i) {
    if (step.draws[i] >= 0) drawn[i] = told[step.draws[i]];
  }
  return Ok();
}

}  // namespace tidemill
