#include "engine/cuda/draw_masks.h"

#include <algorithm>
#include <span>

namespace tidemill {

DrawMasks::~DrawMasks() {
  for (uint32_t* host : host_) cudaFreeHost(host);
}

Status DrawMasks::Allocate(int64_t vocabulary) {
  words_ = static_cast<int>((vocabulary + 31) / 32);
  const size_t bytes = kMost * static_cast<size_t>(words_) * sizeof(uint32_t);
  TM_RETURN_IF_ERROR(bits_.Allocate(bytes, "masks"));
  for (uint32_t*& host : host_) {
    TM_CUDA(cudaMallocHost(reinterpret_cast<void**>(&host), bytes));
  }
  return Ok();
}

int32_t DrawMasks::Add(const TokenMask& mask) {
  const auto known = std::find(there_.begin(), there_.end(), &mask);
  if (known != there_.end()) return static_cast<int32_t>(known - there_.begin()) + 1;
  if (there_.size() == kMost) return 0;
  const auto words = static_cast<size_t>(words_);
  mask.FillWords(std::span(host_[step_ % 2] + there_.size() * words, words));
  there_.push_back(&mask);
  return static_cast<int32_t>(there_.size());
}

Status DrawMasks::Upload(cudaStream_t stream) {
  if (!there_.empty()) {
    const size_t bytes = there_.size() * static_cast<size_t>(words_) * sizeof(uint32_t);
    TM_CUDA(cudaMemcpyAsync(bits_.as(), host_[step_ % 2], bytes, cudaMemcpyHostToDevice, stream));
  }
  there_.clear();
  ++step_;
  return Ok();
}

}  // namespace tidemill
