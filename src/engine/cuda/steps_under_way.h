// The host's side of the steps a device works on: what goes up for each, what comes back, and how
// to wait for it. Two at most: one runs, the next is started.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <span>
#include <vector>

#include "core/status.h"
#include "model/cuda/kernels.h"

namespace tidemill {

// Not thread-safe. Nothing is under way any more when it is destroyed.
class StepsUnderWay {
 public:
  struct Step {
    char* host = nullptr;    // pinned: a CudaStepHead, then the step
    std::vector<int> draws;  // where those of its segments are; negative: none
    cudaEvent_t done = nullptr;
    CudaStepHead* head() const { return reinterpret_cast<CudaStepHead*>(host); }
    char* rows() const { return host + sizeof(CudaStepHead); }
  };

  StepsUnderWay() = default;
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;
  ~StepsUnderWay();

  // Once: steps of at most `bytes` with at most `draws` draws.
  Status Allocate(size_t bytes, int draws);

  // The one that is not started yet. Pages to be copied before it may be known earlier than the
  // rest.
  Step& next() { return steps_[started_ % steps_.size()]; }
  bool full() const { return started_ == finished_ + steps_.size(); }
  bool none() const { return started_ == finished_; }

  // Everything of the next step is on the stream.
  Status Started(cudaStream_t stream);
  // Waits for the oldest; drawn[i] is filled where its segment i draws.
  Status Finish(std::span<CudaDrawn> drawn);

  // Where the device tells what it draws (CudaFinishArgs).
  CudaDrawn* told_device() const { return told_device_; }
  int told_stride() const { return told_stride_; }

 private:
  std::array<Step, 2> steps_;  // step n in n modulo 2
  size_t started_ = 0, finished_ = 0;
  CudaDrawn* told_ = nullptr;  // pinned, written by the device: a block for each step
  CudaDrawn* told_device_ = nullptr;
  int told_stride_ = 0;
};

}  // namespace tidemill
